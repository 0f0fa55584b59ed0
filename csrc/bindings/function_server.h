// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <pybind11/pybind11.h>

#include "workers/worker_memory.h"

namespace torch_distinput {

/// Runs `function` in this process, number `process` of those that `memory` is for, until the pool is
/// stopped. `messages`: what `MessageFunctions` takes. REQUIRES: the GIL, and the process's main thread.
void serve_function(const std::shared_ptr<WorkerMemory>& memory, int process,
                    const pybind11::object& function, const pybind11::object& messages);

}  // namespace torch_distinput
