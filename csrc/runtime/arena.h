// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/executor.h"

namespace torch_distinput {

// The functions below are safe from any thread.

/// The process-wide oneTBB arena, made at the first call: `available_cpus()` threads divided by the
/// environment's LOCAL_WORLD_SIZE (the processes that share the machine), at least 1. Its tasks must not
/// block, do I/O or run users' code. Never destroyed.
///
/// A child that was forked after any arena was made has no oneTBB threads: it gets `serial_executor()`.
std::shared_ptr<Executor> shared_arena();

/// A new oneTBB arena for at most `threads` tasks at a time; all arenas of the process together use at most
/// `available_cpus()` threads. Throws std::invalid_argument unless `threads` >= 1. A forked child gets
/// `serial_executor()`, as from `shared_arena`.
std::shared_ptr<Executor> make_arena(int threads);

/// The executor without threads (`concurrency() == 0`); its `submit` throws std::logic_error.
std::shared_ptr<Executor> serial_executor();

}  // namespace torch_distinput
