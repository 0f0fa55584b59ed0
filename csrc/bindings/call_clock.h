// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// Whether another thread is inside a call that a clock of `call_clock` measures, or has left one with an
/// exception. REQUIRES: the GIL.
bool others_are_in_calls();

}  // namespace torch_distinput
