// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/checkpoint/position_state.h"

namespace torch_distinput {

/// A state of `position`, for `load_position`. If ranks read streams of their own, it contains which rank
/// of how many saved it.
State save_position(const SavedPosition& position);

/// The position in `state`, which is a state that this rank saved, or a list of the states that all ranks
/// of a run saved after the same step. If the number of ranks has changed, the rest of the epoch is the
/// rest of each saved stream: with fewer ranks now, a rank takes over whole streams; with more, ranks
/// share a stream element by element.
///
/// Throws c10::ValueError for any other value, for states of different steps, epochs or seeds, and for
/// another number of ranks if only the user's code knows which rank read which rows: policies OFF and
/// HINT, and datasets from a function.
SavedPosition load_position(const DistributionPtr& distribution, const State& state);

}  // namespace torch_distinput
