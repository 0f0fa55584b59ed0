// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/lane.h"
#include "distribute/peer_link.h"
#include "runtime/counters.h"

namespace torch_distinput {

/// Keeps this rank together with others that read streams of their own, which may end at different steps:
/// hands out the steps of `own` as far as every rank has one, and empty ones when this rank's have ended.
/// Ranks talk in rounds, each about all steps that lie ready; a rank that fails fails them all at the same
/// step. `link` is open and outlives the lane, as does the
/// count of `rounds`. `row_start`: rows of the epoch before `start`, over all ranks.
std::unique_ptr<Lane> open_agreed_lane(DistributionPtr distribution, std::unique_ptr<Lane> own,
                                       const Start& start, PeerLink& link, Counter& rounds,
                                       std::int64_t row_start);

}  // namespace torch_distinput
