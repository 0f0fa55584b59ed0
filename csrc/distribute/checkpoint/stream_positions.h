// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "distribute/checkpoint/position_state.h"
#include "distribute/sharding/stream_states.h"

namespace torch_distinput {

/// Whether `state` was saved under policy STREAMS: its streams, by number, can go on on any ranks.
bool is_of_streams(const State& state);

/// Adds to `state` of `position` what `load_streams` needs. REQUIRES: policy STREAMS is applied.
void add_streams(State& state, const SavedPosition& position);

/// What the streams of the rank that saved `state` have drawn from each dataset of their mixture; empty
/// without one. REQUIRES: `is_of_streams(state)`.
std::vector<std::int64_t> sampled_in_streams(const State& state);

/// The position in `states`, which all ranks of a run saved under policy STREAMS after the same step, in any
/// order; or the one that this rank saved. With the same number of ranks and shares, the rank continues its
/// own streams; else it takes those that are dealt to it now.
///
/// Throws c10::ValueError where policy STREAMS is not applied here, and for states that do not have each
/// stream once or are of different steps, epochs or seeds.
SavedPosition load_streams(const DistributionPtr& distribution, const std::vector<State>& states);

}  // namespace torch_distinput
