// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/slab_space.h"

#include <algorithm>
#include <bit>

#include <unistd.h>

namespace torch_distinput {
namespace {

struct SlabHead {
  std::uint64_t next;  // the one below it in the stack of freed slabs
  std::uint64_t log2_size;
  std::atomic<std::uint64_t> discarded;
};

SlabHead& head_of(const SharedSegment& segment, std::uint64_t slab) noexcept {
  return *reinterpret_cast<SlabHead*>(segment.data() + slab - kSlabHead);
}

}  // namespace

std::uint64_t smallest_slab() noexcept {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

void free_slab(const SharedSegment& segment, FreedSlabs& freed, std::uint64_t slab) noexcept {
  SlabHead& head = head_of(segment, slab);
  head.next = freed.top.load(std::memory_order_relaxed);
  while (!freed.top.compare_exchange_weak(head.next, slab, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

std::uint64_t end_of_slab(const SharedSegment& segment, std::uint64_t slab) noexcept {
  return slab - kSlabHead + (std::uint64_t{1} << head_of(segment, slab).log2_size);
}

bool was_discarded(const SharedSegment& segment, std::uint64_t slab) noexcept {
  return head_of(segment, slab).discarded.load() != 0;
}

bool take_discarded(const SharedSegment& segment, std::uint64_t slab) noexcept {
  return head_of(segment, slab).discarded.exchange(0) != 0;
}

SlabSpace::SlabSpace(const SharedSegment& segment, FreedSlabs& freed, std::uint64_t begin, std::uint64_t end)
    : segment_(&segment), freed_(&freed), next_(begin), end_(end) {}

std::uint64_t SlabSpace::allocate(std::uint64_t bytes) {
  if (bytes > end_) return 0;
  const auto log2_size = static_cast<int>(std::bit_width(std::max(bytes + kSlabHead, smallest_slab()) - 1));
  std::vector<std::uint64_t>& unused = unused_[log2_size];
  if (unused.empty()) collect();
  if (!unused.empty()) {
    const std::uint64_t slab = unused.back();
    unused.pop_back();
    std::size_t& given_back = given_back_[static_cast<std::size_t>(log2_size)];
    given_back = std::min(given_back, unused.size());
    return slab;
  }
  discard_unused();  // slabs of another size
  const std::uint64_t size = std::uint64_t{1} << log2_size;
  if (size > end_ - next_) return 0;
  const std::uint64_t slab = next_ + kSlabHead;
  next_ += size;
  head_of(*segment_, slab).log2_size = static_cast<std::uint64_t>(log2_size);
  return slab;
}

void SlabSpace::collect() noexcept {
  std::uint64_t slab = freed_->top.exchange(0, std::memory_order_acquire);
  while (slab != 0) {
    const SlabHead& head = head_of(*segment_, slab);
    const std::uint64_t next = head.next;
    unused_[head.log2_size & 63].push_back(slab);
    slab = next;
  }
}

void SlabSpace::give_back() noexcept {
  collect();
  discard_unused();
}

void SlabSpace::discard_unused() noexcept {
  for (std::size_t log2_size = 0; log2_size < unused_.size(); ++log2_size) {
    const std::vector<std::uint64_t>& slabs = unused_[log2_size];
    for (std::size_t& i = given_back_[log2_size]; i < slabs.size(); ++i) {
      head_of(*segment_, slabs[i]).discarded.store(1);
      segment_->discard(slabs[i], end_of_slab(*segment_, slabs[i]));
    }
  }
}

}  // namespace torch_distinput
