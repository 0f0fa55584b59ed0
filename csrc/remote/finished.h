// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "base/polling.h"

namespace torch_distinput {

/// Tells threads that a transfer is over, and how. Safe from any thread.
class Finished {
 public:
  /// REQUIRES: lives until this returns, also where a thread that waited drops it.
  void set(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      error_ = std::move(error);
    }
    // Who wakes up finds the lock free.
    changed_.notify_all();
  }
  bool is_over() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  bool has_failed() const {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }
  /// Waits for `set` and throws its error, if any. Calls `poll` meanwhile; what it throws ends the wait.
  /// Counts as reading, as a wait for a disk does.
  void wait(const Poll& poll) {
    std::unique_lock lock(mutex_);
    wait_polling(changed_, lock, poll, [this] { return done_; }, Stage::kRead);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace torch_distinput
