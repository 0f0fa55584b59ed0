// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// Shows the stages of all threads to torch's profiler, as ranges such as "tdi::read". Where no profiler
/// runs, that costs a few ns a stage. Idempotent.
void show_stages_to_profiler() noexcept;

}  // namespace torch_distinput
