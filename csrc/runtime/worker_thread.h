// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/process_owned.h"
#include "runtime/executor.h"

namespace torch_distinput {

/// A named thread that receives no signals (they stay with the user's threads), joined when destroyed.
///
/// Destroyed by itself, it is detached and ends after `body` returns. In a forked child, where the thread
/// does not exist, destroying it does nothing.
class WorkerThread {
 public:
  /// Starts `body`, which must not throw. `name`: the system keeps the first 15 bytes.
  WorkerThread(const std::string& name, std::function<void()> body);
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

 private:
  ProcessOwned<std::thread> thread_;
};

/// Threads that may block and run users' code (Python), unlike those of an arena. Tasks start in the
/// order of their submission.
///
/// Destroying it waits for running tasks and drops those that have not started; the caller must not hold
/// a lock that they need (the GIL). A task may destroy it: then that task's thread ends by itself. Throws
/// std::invalid_argument unless `threads` >= 1.
std::shared_ptr<Executor> make_thread_pool(int threads, const std::string& name);

/// As many of them as `arena` has threads, for work of the same iterator that blocks; an executor without
/// threads where it has none.
std::shared_ptr<Executor> make_thread_pool_beside(const Executor& arena, const std::string& name);

}  // namespace torch_distinput
