// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/consumer_end.h"

#include <cstddef>
#include <utility>

#include "workers/fork_record.h"

namespace torch_distinput {

SlabsInUse::SlabsInUse(std::shared_ptr<WorkerMemory> memory, std::unique_ptr<PageLocker> locker)
    : memory_(std::move(memory)) {
  if (locker) locks_ = std::make_unique<PageLocks>(memory_->segment(), std::move(locker));
}

std::shared_ptr<char> SlabsInUse::hold(const std::shared_ptr<SlabsInUse>& slabs, int worker,
                                       std::uint64_t slab) {
  struct Held {
    Held(std::shared_ptr<SlabsInUse> slabs, int worker, std::uint64_t slab)
        : slabs(std::move(slabs)), worker(worker), slab(slab) {}
    ~Held() {
      if (!fork_guard.inherited()) slabs->release(worker, slab, visible.first_fork());
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    std::shared_ptr<SlabsInUse> slabs;
    int worker;
    std::uint64_t slab;
    ForkGuard fork_guard;
    VisibleToForks visible;
  };
  auto held = std::make_shared<Held>(slabs, worker, slab);
  const std::lock_guard lock(slabs->mutex_);
  slabs->used_.insert(slab);
  if (!slabs->waiting_.empty()) slabs->release_waiting();
  return {std::move(held), slabs->memory_->segment().data() + slab};
}

void SlabsInUse::release(int worker, std::uint64_t slab, std::uint64_t first_fork) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (seen_by_forks(first_fork)) {
      waiting_.push_back({worker, slab, first_fork});
      return;
    }
    if (!give_back(worker, slab)) return;
  }
  discard(slab);
}

void SlabsInUse::release_waiting() {
  std::erase_if(waiting_, [this](const Waiting& waiting) {
    if (seen_by_forks(waiting.first_fork)) return false;
    give_back(waiting.worker, waiting.slab);
    return true;
  });
}

bool SlabsInUse::give_back(int worker, std::uint64_t slab) noexcept {
  used_.erase(slab);
  if (!ended_) free_slab(memory_->segment(), memory_->control(worker).freed, slab);
  return ended_;
}

void SlabsInUse::discard(std::uint64_t slab) noexcept {
  uncover(slab);
  memory_->segment().discard(slab, end_of_slab(memory_->segment(), slab));
}

std::uint64_t SlabsInUse::discard_except(const std::set<std::uint64_t>& used, std::uint64_t begin,
                                         std::uint64_t end) {
  const SharedSegment& segment = memory_->segment();
  if (locks_) locks_->drop_except(used, begin, end);
  for (auto slab = used.lower_bound(begin); slab != used.lower_bound(end); ++slab) {
    segment.discard(begin, *slab - kSlabHead);
    begin = end_of_slab(segment, *slab);
  }
  segment.discard(begin, end);
  return begin;
}

void SlabsInUse::renew(int worker) {
  WorkerControl& control = memory_->control(worker);
  std::set<std::uint64_t> used;
  {
    const std::lock_guard lock(mutex_);
    control.freed.top.store(0);
    used = used_;
  }
  control.first_slab.store(discard_except(used, memory_->slabs_begin(worker), memory_->slabs_end(worker)));
}

void SlabsInUse::end() {
  std::set<std::uint64_t> used;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    used = used_;
  }
  discard_except(used, memory_->slabs_begin(0), memory_->segment().size());
  seen_by_forks(0);  // forgets the children that are gone
}

ConsumerEnd::ConsumerEnd(std::shared_ptr<WorkerMemory> memory, std::unique_ptr<PageLocker> locker)
    : memory_(std::move(memory)),
      slabs_(std::make_shared<SlabsInUse>(memory_, std::move(locker))),
      sent_(static_cast<std::size_t>(memory_->workers())) {
  for (int worker = 0; worker < memory_->workers(); ++worker) {
    WorkerControl& control = memory_->control(worker);
    tasks_.emplace_back(control.tasks, memory_->tasks(worker), WorkerMemory::kRing);
    results_.emplace_back(control.results, memory_->results(worker), WorkerMemory::kRing);
  }
}

void ConsumerEnd::send(int worker, std::string_view task) {
  tasks_[worker].send(task);
  ++sent_[worker];
  memory_->control(worker).to_worker.ring();
}

void ConsumerEnd::renew(int worker) {
  tasks_[worker].clear();
  results_[worker].clear();
  sent_[worker] = 0;
  memory_->control(worker).passed_over.store(0);
  memory_->control(worker).activity.clear();
  slabs_->renew(worker);
}

int ConsumerEnd::receive(std::string& result) {
  heard_ = memory_->to_consumer().listen();
  const int workers = memory_->workers();
  for (int i = 0; i < workers; ++i) {
    const int worker = next_;
    next_ = (next_ + 1) % workers;
    bool made_room = false;
    const bool received = results_[worker].receive(result, made_room);
    const bool sent = tasks_[worker].flush();
    if (made_room || sent) memory_->control(worker).to_worker.ring();
    if (received) return worker;
  }
  return -1;
}

}  // namespace torch_distinput
