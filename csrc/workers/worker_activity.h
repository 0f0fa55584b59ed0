// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// What a worker does at one moment.
struct Activity {
  enum class Kind { kStarting, kIdle, kBusy };
  Kind kind;
  std::int64_t task;                  // of a busy worker
  std::chrono::nanoseconds duration;  // how long it has been doing this; 0 for a starting worker
  int stack_fd;                       // as in `WorkerActivity::announce`; -1 before it
};

/// A worker's note of what it does, which other processes read. Lies in shared memory; zero bytes are a
/// worker that is starting. A process may be killed at any point of its calls.
class TDI_API WorkerActivity {
 public:
  /// Notes the worker's descriptor of the file to which it writes its stack when it is asked to.
  void announce(int stack_fd) noexcept { stack_fd_.store(stack_fd + 1); }
  /// Notes that the worker begins `task`, a number of at least 0.
  void begin(std::int64_t task) noexcept { note(task + kFirstTask); }
  /// Notes that the worker has nothing to do.
  void end() noexcept { note(kIdle); }

  Activity read() const noexcept;
  /// Makes it a starting worker again. REQUIRES: the worker has ended.
  void clear() noexcept;

 private:
  static constexpr std::int64_t kStarting = 0;
  static constexpr std::int64_t kIdle = 1;
  static constexpr std::int64_t kFirstTask = 2;

  void note(std::int64_t what) noexcept;

  std::atomic<std::int64_t> what_;
  std::atomic<std::int64_t> since_;  // nanoseconds of the steady clock
  std::atomic<int> stack_fd_;        // 1 above the descriptor; 0: none
};

}  // namespace torch_distinput
