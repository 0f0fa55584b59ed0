// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork_guard.h"
#include "runtime/executor.h"

namespace torch_distinput {

/// One thread for each replica, started by the first call, kept between calls and started again in a forked
/// child. Safe from any thread.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(std::size_t replicas) : replicas_(replicas) {}

  /// Runs `call(replica)`, which must not throw, on the thread of each replica, and returns when all are
  /// done. Calls of `run` from several threads take turns.
  void run(const std::function<void(std::size_t)>& call);

 private:
  std::size_t replicas_;
  std::mutex mutex_;  ///< guards the members below
  std::vector<std::shared_ptr<Executor>> threads_;
  ForkGuard fork_guard_;  ///< made when they were started
};

}  // namespace torch_distinput
