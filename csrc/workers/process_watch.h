// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include <sys/types.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Ends the calling process, without cleaning up, `grace` after process `process` has ended, even while
/// Python code runs that never returns. `parent`: whether `process` is the calling process's parent.
TDI_API void end_with_process(pid_t process, bool parent, std::chrono::milliseconds grace);

}  // namespace torch_distinput
