// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distribute/coordination/rank_status.h"
#include "distribute/coordination/round.h"

namespace torch_distinput::round_testing {

/// What `decide_round` must decide, from the statuses of all ranks, by rank: the oracle for summaries.
Round decide_flat(const std::vector<RankStatus>& statuses, const RoundRules& rules);

}  // namespace torch_distinput::round_testing
