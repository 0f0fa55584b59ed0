// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distribute/coordination/rank_status.h"

namespace torch_distinput {

/// The result of a round, the same on every rank.
struct Round {
  /// A released step.
  struct Step {
    std::int64_t global_valid = 0;  ///< rows that count, over all ranks
    bool complete = true;           ///< every rank has a step of its own
    bool last = false;              ///< no step follows
    bool last_complete = false;     ///< no complete step follows
  };
  std::vector<Step> released;
  bool ended = false;         ///< no step follows those released
  std::optional<int> failed;  ///< the rank that fails at the step after those released
  bool apart = false;         ///< it fails because its position in the one stream differs from rank 0's
};

/// Decides a round from `texts`, the statuses of all ranks, by rank. It releases as many steps as every rank
/// that has not ended has ready, so that each released step exists on every rank; ranks that have ended take
/// part with empty steps. When all have ended, all remaining steps are released. `until_first`: the epoch
/// ends when the first rank ends. If all ranks read one stream, a step after which their positions differ
/// fails.
Round decide_round(const std::vector<RankStatus>& texts, bool until_first);

}  // namespace torch_distinput
