// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Which block has a row: in O(1) where blocks are of about one size, and never more than a binary search.
/// Immutable; safe from any thread.
class BlockFinder {
 public:
  /// Block i has the rows [`starts[i]`, `starts[i + 1]`), and each has some. REQUIRES: `starts` outlives
  /// this.
  explicit BlockFinder(std::span<const std::int64_t> starts) : starts_(starts) {
    const std::size_t blocks = starts.size() - 1;
    if (blocks == 0) return;
    // About two parts of rows a block.
    const auto rows_a_block = static_cast<std::uint64_t>(starts.back()) / blocks;
    shift_ = std::max(0, static_cast<int>(std::bit_width(rows_a_block)) - 2);
    std::size_t block = 0;
    for (std::int64_t row = 0; row < starts.back(); row += std::int64_t{1} << shift_) {
      while (starts[block + 1] <= row) ++block;
      first_.push_back(block);
    }
    first_.push_back(blocks - 1);
  }

  /// REQUIRES: `row` is one of a block.
  std::size_t operator()(std::int64_t row) const {
    const auto part = static_cast<std::size_t>(row >> shift_);
    const auto begin = starts_.begin() + static_cast<std::ptrdiff_t>(first_[part]) + 1;
    const auto end = starts_.begin() + static_cast<std::ptrdiff_t>(first_[part + 1]) + 1;
    return static_cast<std::size_t>(std::upper_bound(begin, end, row) - starts_.begin()) - 1;
  }

 private:
  std::span<const std::int64_t> starts_;
  int shift_ = 0;
  std::vector<std::size_t> first_;  ///< the block of the first row of each part; the last block at the end
};

}  // namespace torch_distinput
