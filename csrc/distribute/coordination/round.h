// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distribute/coordination/rank_status.h"

namespace torch_distinput {

/// What a round decides: the same on every rank.
struct Round {
  struct Step {
    std::int64_t global_valid = 0;
    bool complete = true;        ///< no rank is without a step of its own
    bool last = false;           ///< no step follows
    bool last_complete = false;  ///< no complete step follows
  };
  std::vector<Step> released;
  bool ended = false;         ///< no step follows those released
  std::optional<int> failed;  ///< a rank that fails the step after those released
  bool apart = false;         ///< it fails because it stands elsewhere in the one stream than rank 0
};

/// Releases as many steps as every rank that goes on has ready, so that each released step exists everywhere;
/// ranks that have ended take part with empty ones. When all have ended the rest is released at once.
/// `until_first`: the first rank that ends ends the epoch. Where ranks read one stream and come apart, the
/// step fails at which they do. `texts`: one of each rank.
Round decide_round(const std::vector<RankStatus>& texts, bool until_first);

}  // namespace torch_distinput
