// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/worker_thread.h"

namespace torch_distinput {

/// Runs the work of a cache on a thread of its own, so that neither the engine nor those who read wait for
/// the disk. Safe from any thread. Never destroyed while it has work.
class CacheKeeper {
 public:
  /// Runs `task`, which must not throw, after those before it. The first one starts the thread; throws
  /// std::system_error where there is none to be had.
  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::optional<WorkerThread> thread_;
};

}  // namespace torch_distinput
