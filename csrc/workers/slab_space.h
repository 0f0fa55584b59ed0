// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/shared_segment.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// Slabs that the consumer has released and their worker has not collected yet: a stack linked through the
/// slabs' heads. Lies in shared memory; zero bytes are an empty stack.
struct FreedSlabs {
  std::atomic<std::uint64_t> top;
};

/// Bytes of a slab's head, which starts a page; the memory for tensors follows it.
inline constexpr std::uint64_t kSlabHead = 64;

/// Bytes of the smallest slab: a page, so that no two slabs share one.
TDI_API std::uint64_t smallest_slab() noexcept;

/// Gives `slab`, an offset that a SlabSpace returned, back to its worker. Any thread of the consumer.
TDI_API void free_slab(const SharedSegment& segment, FreedSlabs& freed, std::uint64_t slab) noexcept;

/// The end of `slab`'s memory. REQUIRES: an offset that a SlabSpace returned and that was not freed.
TDI_API std::uint64_t end_of_slab(const SharedSegment& segment, std::uint64_t slab) noexcept;

/// Whether the worker has given pages of `slab` back to the system since the last `take_discarded`, so that
/// the slab has other pages now.
TDI_API bool was_discarded(const SharedSegment& segment, std::uint64_t slab) noexcept;
TDI_API bool take_discarded(const SharedSegment& segment, std::uint64_t slab) noexcept;

/// A worker's memory for batches: slabs, which are reused once the consumer has released them. Sizes are
/// powers of two; pages that were never written to cost nothing.
class TDI_API SlabSpace {
 public:
  /// Slabs lie in [begin, end) of `segment`; `begin` is a multiple of `smallest_slab()` above 0.
  SlabSpace(const SharedSegment& segment, FreedSlabs& freed, std::uint64_t begin, std::uint64_t end);

  /// The offset of `bytes` bytes of memory, a multiple of 64; 0 where all slabs are in use and the space has
  /// no room for one more.
  std::uint64_t allocate(std::uint64_t bytes);
  /// Gives the memory of all slabs that are not in use back to the system.
  void give_back() noexcept;

 private:
  void collect() noexcept;
  void discard_unused() noexcept;

  const SharedSegment* segment_;
  FreedSlabs* freed_;
  std::uint64_t next_;
  std::uint64_t end_;
  std::array<std::vector<std::uint64_t>, 64> unused_;  // by log2 of their size
  std::array<std::size_t, 64> given_back_{};           // how many of these, from the first on, have no pages
};

}  // namespace torch_distinput
