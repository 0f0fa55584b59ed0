// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/checkpoint/position_state.h"

namespace torch_distinput {

/// A position, and the distribution that it is a position of.
struct SavedPosition {
  DistributionPtr distribution;
  EpochPosition at;
};

/// What `load_position` reads. Where workers read streams of their own, it says which worker of how many
/// saved it.
State save_position(const SavedPosition& position);

/// Goes to the position of `state`: one that this worker saved, or a list of those that all workers of a run
/// saved after the same step. After another number of workers the rest of the epoch is what each of their
/// streams has left: streams are taken over whole where there are fewer workers now, and shared element by
/// element where there are more.
///
/// Throws c10::ValueError for what is no such state or list, for states of different steps, epochs or seeds,
/// and for another number of workers where only the user's code knows who read what: policies OFF and HINT,
/// and datasets from a function.
SavedPosition load_position(const DistributionPtr& distribution, const State& state);

}  // namespace torch_distinput
