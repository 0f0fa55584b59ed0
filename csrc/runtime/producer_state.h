// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "base/counters.h"
#include "base/polling.h"

namespace torch_distinput {

/// How far and in what portions an `OrderedProducer` works ahead.
struct ProducerOptions {
  /// Items from `position()` on that may be built or being built, at least 1.
  std::int64_t depth = 4;
  /// Consecutive items that one task builds before it claims more, at least 1; more for tiny items. A `depth`
  /// of two bursts or more keeps the threads busy.
  std::int64_t burst = 1;
  /// Items that take less time than this are built by the consumer: to wake another thread for them costs
  /// many times more.
  std::chrono::nanoseconds inline_threshold{0};
  /// How long the consumer lets a task that was submitted begin an item before it builds it itself. More than
  /// 0 for items that take much longer: beside tasks that build later ones, it would get the first one last.
  std::chrono::nanoseconds time_to_begin{0};
  /// Items may wait for something that takes far longer than the ones before took (a network): the consumer
  /// builds no later item while it waits for the next one.
  bool may_block = false;
  /// `depth` and the number of tasks until `widen` is called, at least 1; 0: there is no difference. What
  /// does not wait after all needs no more, and more items than a processor's cache holds take longer.
  std::int64_t narrow_depth = 0;
  int narrow_tasks = 0;
};

/// Consecutive indices [begin, end) that one thread builds.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool empty() const noexcept { return begin == end; }
};

/// The bookkeeping of `OrderedProducer` without the items: which thread builds which index.
///
/// Indices are claimed in order, each once, at most `depth` beyond `position()`. One mutex guards the claims;
/// the consumer writes `position` as an atomic, so that taking an item that is ready costs no lock. Members
/// marked "Consumer" are for the one consuming thread, those marked "Task" for tasks on the executor.
class ProducerState {
 public:
  /// Runs up to `max_tasks` tasks at a time; with 0 the consumer builds everything. Throws
  /// std::invalid_argument unless 0 <= begin <= end, `depth` >= 1 and `burst` >= 1.
  ProducerState(IndexRange indices, const ProducerOptions& options, int max_tasks);

  // As in `OrderedProducer`; safe from any thread.

  std::int64_t position() const noexcept { return position_.load(std::memory_order_relaxed); }
  std::int64_t end() const noexcept { return end_; }
  std::int64_t waits() const noexcept { return waits_.value(); }
  /// Items that are built and not taken; may be off by the items that change hands at this moment.
  std::int64_t ready() const noexcept { return built_.value() - (position() - begin_); }
  /// The most items that could be ready.
  std::int64_t room_for() const noexcept { return end_ - position() < depth_ ? end_ - position() : depth_; }
  bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  /// Consumer. Called while the item at `position()` is not ready: claims the index that the consumer should
  /// build meanwhile. That is this item if no thread has begun it, or begins it within `time_to_begin`; else
  /// a later one if items are so short that building one takes no longer than sleeping would; else none.
  std::optional<std::int64_t> claim_help();
  /// Consumer. The claimed item was the one at `position()`; it is built and being returned.
  void end_help();
  /// Consumer. The item at `position()`, built by a task, was taken out of its slot.
  void advance();
  /// Consumer. The item at `position()` failed: no further index is claimed. `helped`: the consumer built it.
  void fail(bool helped);
  /// Consumer. Where it is worth submitting one more task, counts it and returns true.
  bool want_task();
  /// Consumer. From now on the whole depth and all tasks are used.
  void widen();
  /// Consumer. Waits until `ready` is set (returns true) or `stop` was called (false): spins briefly, then
  /// sleeps and calls `poll`. `ready` belongs to the item at `position()`, which a task has claimed.
  bool wait(const std::atomic<bool>& ready, const Poll& poll);

  /// Task. The indices to build first; empty: the task must end.
  IndexRange first_burst();
  /// Task. The burst is built; returns the indices to build next. Empty: the task must end.
  IndexRange next_burst();
  /// Task. Stores the time that building an item takes at present.
  void set_pace(std::chrono::nanoseconds per_item) noexcept;
  /// Task. The burst is built and the task wants to continue after other work. Where this returns true, the
  /// task submits itself and calls `end_building`, in this order, so that `stop` also waits for the
  /// submission.
  bool requeue();
  /// Task, or consumer after `claim_help`. What was claimed is built.
  void end_building();
  /// Task. The item `index` was made ready (with a sequentially consistent store): wakes the consumer if it
  /// waits for it.
  void announce(std::int64_t index);

  /// Any thread except one that is building. Ends the claims and waits until no thread is building.
  void stop();

 private:
  std::int64_t room() const;
  IndexRange claim_burst();
  void leave_building();
  void let_task_begin(std::unique_lock<std::mutex>& lock);
  bool spin(const std::atomic<bool>& ready) const;

  // Constant after construction.
  const std::int64_t begin_;
  const std::int64_t end_;
  const std::int64_t whole_depth_;
  const int all_tasks_;
  const std::int64_t burst_;
  const std::int64_t refill_;
  const std::chrono::nanoseconds inline_threshold_;
  const std::chrono::nanoseconds time_to_begin_;
  const bool may_block_;

  // Changed by the consumer, with mutex_; read by it, and by tasks with mutex_.
  std::int64_t depth_;

  // Used by the consumer only.
  std::int64_t next_check_;
  std::chrono::steady_clock::time_point help_began_;

  // The latest measurement, of a task or of the consumer.
  std::atomic<std::chrono::nanoseconds> pace_{std::chrono::nanoseconds::max()};

  // Written by the consumer.
  std::atomic<std::int64_t> position_;
  std::atomic<std::int64_t> awaited_;
  Counter waits_;

  // Written by all who build.
  alignas(64) Counter built_;

  // Guarded by mutex_; stopped_ is also read without it.
  std::mutex mutex_;
  std::condition_variable item_begun_;
  std::condition_variable item_ready_;
  std::condition_variable idle_;
  std::atomic<bool> stopped_{false};
  std::int64_t claimed_;
  int max_tasks_;  // changed by the consumer only, which reads it without the lock
  int tasks_ = 0;
  int unstarted_ = 0;
  int building_ = 0;
};

}  // namespace torch_distinput
