// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distribute/coordination/round.h"
#include "distribute/coordination/round_summary.h"

namespace torch_distinput::round_testing {

inline RoundSummary joined(RoundSummary one, const RoundSummary& other) {
  one.join(other);
  return one;
}

/// The summary of `statuses`, by rank.
inline RoundSummary summary_of(const std::vector<RankStatus>& statuses, const RoundRules& rules) {
  RoundSummary all = RoundSummary::of(0, statuses.at(0), rules.merged_replicas);
  for (std::size_t rank = 1; rank < statuses.size(); ++rank)
    all.join(RoundSummary::of(static_cast<int>(rank), statuses[rank], rules.merged_replicas));
  return all;
}

}  // namespace torch_distinput::round_testing
