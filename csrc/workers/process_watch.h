// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Ends the calling process without cleaning up when process `process`, whose work it does, has ended and
/// `grace` has passed; also while it runs Python code that never returns. `parent`: `process` is the calling
/// process's parent.
TDI_API void end_with_process(pid_t process, bool parent, std::chrono::milliseconds grace);

}  // namespace torch_distinput
