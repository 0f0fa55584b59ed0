// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_distinput {

/// What a rank has to say in a round of the agreement on the steps of uneven streams.
struct RankStatus {
  enum class After { kMore, kEnd, kFailure };

  std::vector<std::int64_t> valid = {};  ///< for each step that is ready: its rows that count
  After after = After::kMore;            ///< what follows these steps: unknown, the end or a failure
  std::string failure = {};              ///< for `kFailure`: the message
  /// If all ranks read one stream: a hash of its position after each of the steps.
  std::vector<std::int64_t> places = {};
  /// Where a last step may be merged: whether a replica of this rank gets no row of each of the steps.
  std::vector<bool> lacking = {};

  /// Number of steps that are ready.
  std::int64_t ready() const { return static_cast<std::int64_t>(valid.size()); }
  std::int64_t rows(std::int64_t step) const {
    return step < ready() ? valid[static_cast<std::size_t>(step)] : 0;
  }
  /// A rank that has ended lacks rows, too.
  bool lacks(std::int64_t step) const {
    return step >= ready() || (!lacking.empty() && lacking[static_cast<std::size_t>(step)]);
  }
};

}  // namespace torch_distinput
