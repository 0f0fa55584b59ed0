// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "runtime/mixture_order.h"
#include "torch_distinput/node.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// The weights that a user has set while a mixture is read.
struct ChangedWeights {
  const Node* mixture = nullptr;                  ///< of the pipeline that runs
  std::vector<WeightsFromPosition> weights = {};  ///< by position of the mixture, increasing
};

/// The `sample_from_datasets` of the pipeline up to `last`, of two in one another the outer one. Throws
/// c10::ValueError naming `call` where there is none, where there are several side by side, and where an op
/// after it has other elements of it in hand than those that it has handed out: later weights would change
/// what was handed out. `runs_plan`: elements come from a plan.
const Node& mixture_of(const Node& last, bool runs_plan, std::string_view call);

/// Throws c10::ValueError naming `call` unless there is a finite weight of at least 0 for each of `datasets`,
/// and not all are 0.
void check_weights(std::string_view call, const std::vector<double>& weights, std::size_t datasets);

/// `before`, with `weights` from `position` on instead of all that was set for positions from there on.
std::vector<WeightsFromPosition> with_change(std::vector<WeightsFromPosition> before, std::int64_t position,
                                             std::vector<double> weights);

/// The entry of a saved position with weights that were set.
inline constexpr const char* kChangedWeights = "weights";
State::List state_of(const std::vector<WeightsFromPosition>& weights);
/// What the position `state` has of them; none without the entry. Throws c10::ValueError naming `call` for
/// other values than `state_of` returns, and for another number of datasets than `mixture_of(last)` has.
std::vector<WeightsFromPosition> changed_weights_in(const State& state, const Node& last,
                                                    std::string_view call);

}  // namespace torch_distinput
