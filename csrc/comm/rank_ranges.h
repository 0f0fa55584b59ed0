// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/peer_text.h"

namespace torch_distinput {

/// A set of ranks, kept as sorted ranges that neither overlap nor touch, so that a whole group is one range.
class RankRanges {
 public:
  RankRanges() = default;
  static RankRanges of(int rank);

  /// REQUIRES: `rank` is at least 0.
  void add(int rank);
  /// Adds the ranks of `other`.
  void join(const RankRanges& other);

  bool empty() const noexcept { return ranges_.empty(); }
  std::size_t count() const noexcept;
  /// The lowest rank. REQUIRES: not empty.
  int first() const noexcept { return ranges_.front().first; }
  bool overlaps(const RankRanges& other) const noexcept;
  /// The ranks, in order.
  std::vector<int> ranks() const;

  void encode(PeerTextWriter& text) const;
  /// The set that comes next in `text`. Throws PeerTextError unless its ranges are as `encode` writes them,
  /// of ranks below `group`, the number of ranks.
  static RankRanges decode(PeerTextReader& text, int group);

  /// For messages: `3`, `0 and 2`, or `0-7, 12 and 16-23`. Three neighbours or more are one range.
  std::string str() const;

  bool operator==(const RankRanges&) const = default;

 private:
  struct Range {
    int first;
    int last;
    bool operator==(const Range&) const = default;
  };

  /// Adds `next`, which begins no lower than the last range.
  void append(Range next);

  std::vector<Range> ranges_;
};

/// `rank 3`, or `ranks 0-7, 12 and 16-23`, for messages.
std::string name_ranks(const RankRanges& ranks);

}  // namespace torch_distinput
