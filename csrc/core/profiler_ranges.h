// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// Shows the stages of all threads to torch's profiler, as ranges such as "tdi::read". Where no profiler
/// runs, that costs a few ns a stage. Idempotent.
void show_stages_to_profiler() noexcept;

/// Functions that begin and end a range of this thread in another tool (NVTX). They must not throw.
struct RangeFunctions {
  void (*push)(const char* name);
  void (*pop)();
};
/// Also shows the stages through `functions`, from the next ones on; `push` and `pop` always come in pairs.
void show_stages_to(RangeFunctions functions) noexcept;

}  // namespace torch_distinput
