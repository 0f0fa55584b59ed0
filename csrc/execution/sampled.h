// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "torch_distinput/state.h"

namespace torch_distinput {

/// The entry of a position in or after a `sample_from_datasets` with the elements drawn from each dataset.
inline constexpr const char* kSampled = "sampled";

/// `counts` as a state has them.
State::List list_of(const std::vector<std::int64_t>& counts);

/// Adds to each of `sum` the count in its place; those that `sum` lacks are appended.
void add_counts(std::vector<std::int64_t>& sum, const std::vector<std::int64_t>& counts);

/// The elements drawn from each dataset by the first op in the position `state` that draws, looked for from
/// the end of the pipeline; empty without one. Positions are those of what was handed out, so what was read
/// ahead does not count.
std::vector<std::int64_t> sampled_in(const State& state);

}  // namespace torch_distinput
