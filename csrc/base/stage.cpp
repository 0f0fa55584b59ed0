// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/stage.h"

#include <atomic>
#include <utility>

#include "base/slow_reads.h"
#include "base/trace.h"

namespace torch_distinput {
namespace {

/// `counters`: what `owner` points to, read directly.
struct ThreadWork {
  Counters* counters = nullptr;
  std::shared_ptr<Counters>* owner = nullptr;
  StageScope* innermost = nullptr;
};
thread_local ThreadWork thread_work;

std::atomic<const StageObserver*> stage_observer{nullptr};

}  // namespace

std::shared_ptr<Counters> current_work() noexcept {
  const ThreadWork& work = thread_work;
  return work.owner != nullptr ? *work.owner : nullptr;
}

WorkScope::WorkScope(std::shared_ptr<Counters> counters) noexcept : counters_(std::move(counters)) {
  ThreadWork& work = thread_work;
  outer_ = std::exchange(work.counters, counters_.get());
  outer_owner_ = std::exchange(work.owner, &counters_);
}

WorkScope::~WorkScope() {
  thread_work.counters = outer_;
  thread_work.owner = outer_owner_;
}

StageScope::StageScope(Stage stage) noexcept : counters_(thread_work.counters), stage_(stage) {
  if (counters_ == nullptr) return;
  outer_ = std::exchange(thread_work.innermost, this);
  if (const StageObserver* observer = stage_observer.load(std::memory_order_acquire))
    range_ = observer->begin(stage);
  began_ = clock_ns();
  if (outer_ != nullptr) outer_->busy().end(began_);
  busy().begin(began_);
}

std::int64_t StageScope::end() noexcept {
  if (counters_ == nullptr) return 0;
  const std::int64_t now = clock_ns();
  const std::int64_t time = now - began_;
  busy().end(now);
  if (outer_ != nullptr) outer_->busy().begin(now);
  std::exchange(counters_, nullptr)->stage_ns[static_cast<std::size_t>(stage_)].add(time - inner_);
  if (outer_ != nullptr) outer_->inner_ += time;
  thread_work.innermost = outer_;
  if (range_ != nullptr) stage_observer.load(std::memory_order_acquire)->end(range_);
  if (tracing()) trace_span({stage_, began_, began_ + time});
  return time;
}

NetworkWait::NetworkWait() noexcept { note_slow_read(); }

NetworkWait::~NetworkWait() {
  const std::int64_t time = reads_.end();
  Counters* const counters = thread_work.counters;
  if (counters == nullptr) return;
  counters->network_ns.add(time);
  note_object_read();
}

void note_object_read() noexcept {
  Counters* const counters = thread_work.counters;
  // Threads that only look at it do not wait for each other.
  if (counters != nullptr && !counters->reads_objects.load(std::memory_order_relaxed))
    counters->reads_objects.store(true, std::memory_order_relaxed);
}

void note_copies(std::int64_t copies, std::int64_t bytes) noexcept {
  Counters* const counters = thread_work.counters;
  if (counters == nullptr) return;
  counters->copies.add(copies);
  counters->copied_bytes.add(bytes);
}

void note_queue(std::int64_t ready, std::int64_t room) noexcept {
  Counters* const counters = thread_work.counters;
  if (counters == nullptr) return;
  counters->queue_looks.add();
  counters->queue_ready.add(ready);
  counters->queue_room.add(room);
  if (tracing()) trace_queue(ready, room);
}

void set_stage_observer(const StageObserver* observer) noexcept {
  stage_observer.store(observer, std::memory_order_release);
}

}  // namespace torch_distinput
