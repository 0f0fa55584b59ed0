// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distribute/coordination/round_summary.h"

namespace torch_distinput {

/// How an epoch ends.
struct RoundRules {
  bool until_first = false;          ///< with the first rank that ends
  std::int64_t merged_replicas = 0;  ///< above 0: a last step is merged; the replicas of each rank
};

/// The result of a round, the same on every rank.
struct Round {
  /// A released step.
  struct Step {
    std::int64_t global_valid = 0;  ///< rows that count, over all ranks
    bool complete = true;           ///< every rank has a step of its own
    bool last = false;              ///< no step follows
    bool last_complete = false;     ///< no complete step follows
    bool merged = false;            ///< each rank splits all the rows that it has left

    bool operator==(const Step&) const = default;
  };
  std::vector<Step> released;
  bool ended = false;         ///< no step follows those released
  std::optional<int> failed;  ///< the rank that fails at the step after those released
  std::string failure;        ///< its message; empty if it is `apart`
  bool apart = false;         ///< it fails because its position in the one stream differs from rank 0's

  bool operator==(const Round&) const = default;
};

/// Decides a round from `all`, the summary of all ranks, with the replicas of `rules`. It releases as many
/// steps as every rank that has not ended has ready, so that each released step exists on every rank; ranks
/// that have ended take part with empty steps. When all have ended, all remaining steps are released. With
/// `until_first` the epoch ends when the first rank ends. If all ranks read one stream, a step after which
/// their positions differ fails.
///
/// Where a last step is merged, the latest step is held back until it is known what follows. If that is a
/// last step in which a replica gets no row, both are released as one, provided that this gives every replica
/// a row: a rank can deal its own rows out to its own replicas only.
Round decide_round(const RoundSummary& all, const RoundRules& rules);

}  // namespace torch_distinput
