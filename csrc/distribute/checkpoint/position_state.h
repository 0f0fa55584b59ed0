// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/steps/step_source.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// A position of a distributed iterator.
struct EpochPosition {
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  bool seed_agreed = true;  ///< else this rank drew it, and another one may count
  Start start = {};
};

/// What `read_position` reads.
State write_position(const Distribution& distribution, const EpochPosition& position);

/// The seed in `state`, if the ranks had agreed on one.
void read_seed(const State& state, EpochPosition& at);

/// Throws c10::ValueError for a state that is no position of a distributed iterator, of a newer version,
/// or of another pipeline (naming what differs). Another split, batch size or number of replicas is fine:
/// the position counts rows.
EpochPosition read_position(const Distribution& distribution, const State& state);

}  // namespace torch_distinput
