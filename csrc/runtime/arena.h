// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/executor.h"

namespace torch_distinput {

/// CPUs this process may run on (its affinity mask), at least 1.
int available_cpus();

/// The process-wide oneTBB arena, made at the first call: `available_cpus()` threads, divided by the
/// environment's LOCAL_WORLD_SIZE when several processes share the machine, at least 1. Its tasks must
/// not block, do I/O or run users' code. Never destroyed.
///
/// In a child forked after any arena was made, oneTBB's threads are gone: `serial_executor()` is returned.
std::shared_ptr<Executor> shared_arena();

/// A oneTBB arena of its own for at most `threads` tasks at a time; all arenas of the process together
/// use at most `available_cpus()` threads. Throws std::invalid_argument unless `threads` >= 1. A forked
/// child gets `serial_executor()`, see `shared_arena`.
std::shared_ptr<Executor> make_arena(int threads);

/// The executor without threads (`concurrency() == 0`); its `submit` throws std::logic_error.
std::shared_ptr<Executor> serial_executor();

}  // namespace torch_distinput
