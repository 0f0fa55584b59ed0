// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/page_locks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "workers/slab_space.h"

namespace torch_distinput {
namespace {

/// Batches of slightly different sizes must not lock a slab again each time.
constexpr std::uint64_t kSteps = 8;

}  // namespace

PageLocks::PageLocks(const SharedSegment& segment, std::unique_ptr<PageLocker> locker)
    : segment_(&segment), locker_(std::move(locker)) {}

PageLocks::~PageLocks() { drop_except({}); }

bool PageLocks::cover(std::uint64_t slab, std::uint64_t bytes) {
  if (take_discarded(*segment_, slab)) drop(slab);
  if (covers(slab, bytes)) return true;
  if (refused_) return false;
  drop(slab);
  drop_discarded();
  const std::uint64_t head = slab - kSlabHead;
  const std::uint64_t step = std::max((end_of_slab(*segment_, slab) - head) / kSteps, smallest_slab());
  const std::uint64_t locked = (kSlabHead + bytes + step - 1) / step * step;
  refused_ = !locker_->lock(segment_->data() + head, locked);
  if (refused_) return false;
  const std::lock_guard lock(mutex_);
  locked_.emplace(slab, locked);
  return true;
}

bool PageLocks::covers(std::uint64_t slab, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = locked_.find(slab);
  return found != locked_.end() && kSlabHead + bytes <= found->second;
}

void PageLocks::drop(std::uint64_t slab) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (locked_.erase(slab) == 0) return;
  }
  locker_->unlock(segment_->data() + slab - kSlabHead);
}

/// Called before another slab is locked, so that discarded slabs of an earlier size do not stay locked.
void PageLocks::drop_discarded() noexcept {
  std::set<std::uint64_t> kept;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [slab, bytes] : locked_) {
      if (!was_discarded(*segment_, slab)) kept.insert(slab);
    }
    if (kept.size() == locked_.size()) return;
  }
  drop_except(kept);
}

void PageLocks::drop_except(const std::set<std::uint64_t>& kept, std::uint64_t begin,
                            std::uint64_t end) noexcept {
  // In a forked child the locks are the parent's, and one of its threads may hold the mutex.
  if (fork_guard_.inherited()) return;
  std::vector<std::uint64_t> dropped;
  {
    const std::lock_guard lock(mutex_);
    const auto last = locked_.lower_bound(end);
    for (auto slab = locked_.lower_bound(begin); slab != last; ++slab) {
      if (!kept.contains(slab->first)) dropped.push_back(slab->first);
    }
  }
  for (const std::uint64_t slab : dropped) drop(slab);
}

}  // namespace torch_distinput
