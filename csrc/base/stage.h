// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/counters.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// Nanoseconds of the steady clock.
inline std::int64_t clock_ns() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// The counters of the iterator that this thread works for; null: of none.
std::shared_ptr<Counters> current_work() noexcept;

/// Makes this thread work for the iterator with `counters` (null: for none) while it lives. A task runs with
/// the `current_work` of the thread that submitted it.
class WorkScope {
 public:
  explicit WorkScope(std::shared_ptr<Counters> counters) noexcept;
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  std::shared_ptr<Counters> counters_;
  Counters* outer_;
  std::shared_ptr<Counters>* outer_owner_;
};

/// Counts its life as time of `stage` for the iterator that this thread works for, less the scopes inside it,
/// which count for themselves. Without an iterator it costs one read of a thread-local variable.
class TDI_API StageScope {
 public:
  explicit StageScope(Stage stage) noexcept;
  ~StageScope() { end(); }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

  /// Ends the scope early; returns its whole time in ns, 0 where there is no iterator or at a second call.
  std::int64_t end() noexcept;
  std::int64_t began() const noexcept { return began_; }

 private:
  BusyTime& busy() noexcept { return counters_->busy[static_cast<std::size_t>(stage_)]; }

  Counters* counters_;
  StageScope* outer_ = nullptr;
  void* range_ = nullptr;
  std::int64_t began_ = 0;
  std::int64_t inner_ = 0;
  Stage stage_;
};

/// Counts its life as reading, and as time that a network was waited for.
class NetworkWait {
 public:
  NetworkWait() noexcept;
  ~NetworkWait();
  NetworkWait(const NetworkWait&) = delete;
  NetworkWait& operator=(const NetworkWait&) = delete;

 private:
  StageScope reads_{Stage::kRead};
};

/// Notes that bytes of an object were read without waiting for a network, for the current iterator.
void note_object_read() noexcept;
/// Notes that `copies` blocks of `bytes` bytes together go to accelerators, for the current iterator.
void note_copies(std::int64_t copies, std::int64_t bytes) noexcept;
/// Notes that `ready` items of at most `room` lay in a queue when the next one was taken.
void note_queue(std::int64_t ready, std::int64_t room) noexcept;

/// A profiler that wants to see stages. `begin` returns what `end` gets, or null where it does not look now.
struct StageObserver {
  void* (*begin)(Stage stage) noexcept;
  void (*end)(void* range) noexcept;
};
/// Sets the observer of all stages of the process, which must never be destroyed.
void set_stage_observer(const StageObserver* observer) noexcept;

}  // namespace torch_distinput
