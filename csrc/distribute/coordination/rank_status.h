// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_distinput {

/// What a rank says in a round of the agreement on the end of uneven streams.
struct RankStatus {
  enum class After { kMore, kEnd, kFailure };

  std::vector<std::int64_t> valid;  ///< of each step that lies ready here: its rows that count
  After after = After::kMore;       ///< what comes after them
  std::string failure = {};         ///< for `kFailure`: what happened
  /// Where the ranks read one stream, each for itself: a hash of its place after each of the steps.
  std::vector<std::int64_t> places = {};

  std::int64_t ready() const { return static_cast<std::int64_t>(valid.size()); }
  bool ends_by(std::int64_t step) const { return after == After::kEnd && step >= ready(); }

  std::string encode() const;
  /// REQUIRES: made by `encode`.
  static RankStatus decode(const std::string& text);
};

}  // namespace torch_distinput
