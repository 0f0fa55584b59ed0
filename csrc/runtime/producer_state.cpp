// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/producer_state.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/stage.h"

namespace torch_distinput {
namespace {

/// About the cost of waking a sleeping thread: to spin longer than that is a loss.
constexpr std::chrono::microseconds kSpin{20};
/// Items below this cost less than to spin in vain and then be woken.
constexpr std::chrono::microseconds kShortItem{50};
constexpr int kPausesPerClockRead = 8;
constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// The smaller one; 0 is none.
template <class Number>
Number narrowed(Number whole, Number narrow) {
  return narrow > 0 ? std::min(whole, narrow) : whole;
}

void check_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw std::invalid_argument("ordered_producer: `" + std::string(name) + "` must be at least " +
                              std::to_string(least) + ", but is " + std::to_string(value) + ".");
}

}  // namespace

ProducerState::ProducerState(IndexRange indices, const ProducerOptions& options, int max_tasks)
    : begin_(indices.begin),
      end_(indices.end),
      whole_depth_(options.depth),
      all_tasks_(max_tasks),
      burst_(options.burst),
      // At most half the ring, so that the consumer can use up the other half while a task builds.
      refill_(std::max<std::int64_t>(1, std::min(burst_, narrowed(whole_depth_, options.narrow_depth) / 2))),
      inline_threshold_(options.inline_threshold),
      time_to_begin_(options.time_to_begin),
      may_block_(options.may_block),
      depth_(narrowed(whole_depth_, options.narrow_depth)),
      next_check_(indices.begin),
      position_(indices.begin),
      awaited_(kNothing),
      claimed_(indices.begin),
      max_tasks_(narrowed(all_tasks_, options.narrow_tasks)) {
  check_at_least("begin", indices.begin, 0);
  check_at_least("end", indices.end, indices.begin);
  check_at_least("depth", whole_depth_, 1);
  check_at_least("burst", burst_, 1);
}

std::optional<std::int64_t> ProducerState::claim_help() {
  const bool short_items = !may_block_ && pace_.load(std::memory_order_relaxed) < kShortItem;
  std::unique_lock lock(mutex_);
  if (time_to_begin_.count() > 0) let_task_begin(lock);
  const bool unbegun = claimed_ == position();
  if (stopped_ || !(unbegun || (short_items && room() > 0))) return std::nullopt;
  ++building_;
  next_check_ = position();
  if (unbegun && inline_threshold_.count() > 0) help_began_ = std::chrono::steady_clock::now();
  return claimed_++;
}

void ProducerState::let_task_begin(std::unique_lock<std::mutex>& lock) {
  const StageScope waits(Stage::kWait);
  item_begun_.wait_for(lock, time_to_begin_,
                       [&] { return claimed_ != position() || unstarted_ == 0 || stopped_; });
}

void ProducerState::end_help() {
  if (inline_threshold_.count() > 0) set_pace(std::chrono::steady_clock::now() - help_began_);
  built_.add();
  const std::lock_guard lock(mutex_);
  advance();
  leave_building();
}

void ProducerState::advance() {
  // Release: a task that sees the new position also sees that the slot is empty.
  position_.store(position() + 1, std::memory_order_release);
}

void ProducerState::fail(bool helped) {
  const std::lock_guard lock(mutex_);
  claimed_ = end_;
  if (helped) leave_building();
}

bool ProducerState::want_task() {
  if (max_tasks_ == 0 || position() < next_check_) return false;
  if (pace_.load(std::memory_order_relaxed) < inline_threshold_) return false;
  const std::lock_guard lock(mutex_);
  const std::int64_t free = room();
  const bool last_ones = free > 0 && free == end_ - claimed_ && unstarted_ == 0;
  const bool worth_it = last_ones || free / refill_ > unstarted_;
  if (stopped_ || tasks_ == max_tasks_ || !worth_it) {
    // A task ends only when the ring is full, so the next check is due when a refill fits.
    const std::int64_t step = free < refill_ ? refill_ - free : refill_;
    next_check_ = end_ - position() > step ? position() + step : end_;
    return false;
  }
  ++tasks_;
  ++unstarted_;
  return true;
}

void ProducerState::widen() {
  if (depth_ == whole_depth_ && max_tasks_ == all_tasks_) return;
  const std::lock_guard lock(mutex_);
  depth_ = whole_depth_;
  max_tasks_ = all_tasks_;
  next_check_ = position();
}

bool ProducerState::wait(const std::atomic<bool>& ready, const Poll& poll) {
  const StageScope waits(Stage::kWait);
  if (spin(ready)) return true;
  waits_.add();
  std::unique_lock lock(mutex_);
  // Sequentially consistent, as are the store before `announce` and the load in it: either the task sees that
  // the consumer waits, or the consumer sees that the item is ready.
  awaited_.store(position());
  wait_polling(item_ready_, lock, poll, [&] { return ready.load() || stopped_; });
  awaited_.store(kNothing);
  return ready.load() && !stopped_;
}

bool ProducerState::spin(const std::atomic<bool>& ready) const {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready.load(std::memory_order_acquire)) return true;
      pause_cpu();
    }
  } while (!stopped() && std::chrono::steady_clock::now() < give_up);
  return false;
}

IndexRange ProducerState::first_burst() {
  const std::lock_guard lock(mutex_);
  --unstarted_;
  return claim_burst();
}

IndexRange ProducerState::next_burst() {
  const std::lock_guard lock(mutex_);
  leave_building();
  return claim_burst();
}

bool ProducerState::requeue() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  ++unstarted_;
  return true;
}

void ProducerState::end_building() {
  const std::lock_guard lock(mutex_);
  leave_building();
}

void ProducerState::set_pace(std::chrono::nanoseconds per_item) noexcept {
  pace_.store(per_item, std::memory_order_relaxed);
}

void ProducerState::announce(std::int64_t index) {
  built_.add();
  if (awaited_.load() != index) return;
  // The empty critical section lets the consumer reach its wait before it is notified.
  {
    const std::lock_guard lock(mutex_);
  }
  item_ready_.notify_one();
}

void ProducerState::stop() {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  item_begun_.notify_all();
  item_ready_.notify_all();
  idle_.wait(lock, [&] { return building_ == 0; });
}

std::int64_t ProducerState::room() const {
  const std::int64_t at = position_.load(std::memory_order_acquire);
  const std::int64_t limit = end_ - at > depth_ ? at + depth_ : end_;
  return std::max<std::int64_t>(0, limit - claimed_);
}

IndexRange ProducerState::claim_burst() {
  const std::int64_t count = stopped_ ? 0 : std::min(burst_, room());
  if (count == 0) {
    --tasks_;
    return {};
  }
  const IndexRange burst{claimed_, claimed_ + count};
  claimed_ = burst.end;
  ++building_;
  if (time_to_begin_.count() > 0) item_begun_.notify_one();
  return burst;
}

void ProducerState::leave_building() {
  --building_;
  if (stopped_ && building_ == 0) idle_.notify_all();
}

}  // namespace torch_distinput
