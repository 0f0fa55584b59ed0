// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/lane_turns.h"

namespace torch_distinput {

/// An order of rows that keeps the rows of a block close to one another. The blocks, ranges of rows, are
/// dealt to lanes; in each epoch the blocks of a lane come in another order, and their rows are shuffled in
/// windows of `window` blocks (as by `WindowedPermutation`); the lanes take turns (`LaneTurns`). So at any
/// time about two windows of blocks of each lane are in use, and a lane has the same blocks in each epoch.
/// A bijection on [0, size()), a pure function of the arguments. O(blocks) memory. Immutable; safe from any
/// thread.
class LaneOrder {
 public:
  struct Keys {
    std::uint64_t run;    ///< deals blocks to lanes
    std::uint64_t epoch;  ///< orders the blocks of a lane, and their rows
  };

  /// Block i has the rows [starts[i], starts[i + 1]); those without rows count as none. Throws
  /// std::invalid_argument unless `starts` begins with 0, never decreases and ends at most at 2^61, and
  /// `window` is at least 1.
  LaneOrder(std::span<const std::int64_t> starts, std::int64_t window, Keys keys);

  std::int64_t size() const noexcept { return turns_.size(); }
  /// A power of two: 64 to 1,024, but at most as many as there are blocks, and at least 1.
  std::int64_t lanes() const noexcept { return turns_.lanes(); }
  std::int64_t blocks() const noexcept { return static_cast<std::int64_t>(blocks_.size()); }
  /// Blocks that some, but not all rows of have come, at most, where blocks have the same size: two windows
  /// of each lane, and the blocks at their ends.
  std::int64_t blocks_in_use() const noexcept { return std::min(lanes() * (2 * window_ + 1), blocks()); }
  /// Blocks of which a reader must keep those used last in order to read each block once. A block that has
  /// come as a whole is as young as one whose last rows are still to come: those of a window more are there.
  std::int64_t blocks_to_keep() const noexcept { return std::min(lanes() * (3 * window_ + 1), blocks()); }
  /// The variance of the number of rows of a class in a batch of `batch` consecutive positions, as a multiple
  /// of that after a full shuffle, where this is worst: each block has rows of one class. At most
  /// 1 + `batch` / (2 lanes `window`).
  double class_variance(std::int64_t batch) const;
  /// Rows in a window of a lane: those of `window` blocks of mean size.
  std::int64_t window_rows() const noexcept { return window_rows_; }

  /// Replaces every position by its row. Fastest where positions are close to one another. REQUIRES: all in
  /// [0, size()).
  void apply(std::span<std::int64_t> positions) const;
  /// Replaces every position by its lane. REQUIRES: all in [0, size()).
  void apply_lanes(std::span<std::int64_t> positions) const;

 private:
  /// A block at its place in its lane.
  struct Placed {
    std::int64_t end;    ///< rows of the lane up to the end of the block
    std::int64_t shift;  ///< what leads from a row of the lane to that of the data
  };

  /// The rows at `places` of a lane, in their place.
  void find_rows(std::int64_t lane, std::span<std::int64_t> places) const;

  std::int64_t window_;  ///< at most the blocks
  std::int64_t window_rows_ = 1;
  std::uint64_t rows_key_;
  std::vector<Placed> blocks_;      ///< lane after lane
  std::vector<std::size_t> first_;  ///< the first block of each lane; the number of all at the end
  LaneTurns turns_;
};

}  // namespace torch_distinput
