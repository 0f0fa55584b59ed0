// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "distribute/steps/step_source.h"
#include "execution/excluded_rows.h"
#include "runtime/mixture_order.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// A position of a distributed iterator.
struct EpochPosition {
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;   ///< of the epoch's random ops
  bool seed_agreed = true;  ///< false: this rank drew the seed, and the handshake may replace it
  Start start = {};         ///< within the epoch
  std::vector<WeightsFromPosition> changed_weights = {};  ///< of the epoch's mixture, set while it is read
  std::vector<ExcludedRows> excluded = {};                ///< in this epoch and earlier ones
};

/// A position and its distribution.
struct SavedPosition {
  DistributionPtr distribution;
  EpochPosition at;
};

/// A state of `position`, for `read_position`.
State write_position(const Distribution& distribution, const EpochPosition& position);

/// Throws c10::ValueError for a state that is not a position of a distributed iterator, is of a newer
/// version, or is of another pipeline (it names the difference).
void check_position(const Distribution& distribution, const State& state);

/// Sets `at.seed_agreed`, and `at.seed` if the ranks had agreed on the seed in `state`. Throws
/// c10::ValueError for a damaged state.
void read_seed(const State& state, EpochPosition& at);

/// The position in `state`. Another split, batch size or number of replicas than that of the run that saved
/// it is allowed, because a position counts rows. Throws c10::ValueError for a damaged state, and as
/// `check_position` does.
EpochPosition read_position(const Distribution& distribution, const State& state);

}  // namespace torch_distinput
