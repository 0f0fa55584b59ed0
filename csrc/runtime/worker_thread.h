// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/process_owned.h"
#include "runtime/executor.h"

namespace torch_distinput {

/// A named thread that blocks all signals (users' threads receive them) and is joined when this object is
/// destroyed.
///
/// Where its own thread destroys it, the thread is detached and ends after `body` returns. In a forked child,
/// where the thread does not exist, destroying it does nothing.
class WorkerThread {
 public:
  /// Starts `body`, which must not throw. The thread is called by the first 15 bytes of `name`. Throws
  /// std::system_error where no thread can be started.
  WorkerThread(const std::string& name, std::function<void()> body);
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

 private:
  ProcessOwned<std::thread> thread_;
};

/// Runs `body`, which must not throw, on a WorkerThread of that name, and waits until it has returned, but
/// for at most `timeout`. A body that takes longer goes on, and its thread ends by itself. `body` is
/// destroyed on that thread. Where no thread can be started, runs it in the caller's.
void run_apart(const std::string& name, std::function<void()> body, std::chrono::milliseconds timeout);

/// An executor of `threads` threads whose tasks, unlike those of an arena, may block and run users' code
/// (Python). Tasks start in the order of their submission. Throws std::invalid_argument unless `threads` >=
/// 1.
///
/// Destroying it waits for running tasks and drops those that have not started; the caller must not hold a
/// lock that they need (the GIL). A task may destroy it: then that task's thread ends on its own.
std::shared_ptr<Executor> make_thread_pool(int threads, const std::string& name);

/// The same with `at_once` threads; others start when more tasks wait than threads, where the system has
/// them. Not for tasks that fork: a child died of a double free where it started a thread, most likely
/// because another thread of its parent had started at that moment.
std::shared_ptr<Executor> make_thread_pool(int threads, const std::string& name, int at_once);

}  // namespace torch_distinput
