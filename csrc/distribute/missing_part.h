// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "distribute/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// What a replica without rows gets: zero rows, or a whole element like those of the data.
Element missing_part(const Distribution& distribution);

/// What local replica `replica` gets when its worker's own stream has ended before those of others. Under
/// `kPadded` the last row of its last part, as often as a full part has rows, or zeros if it never had one;
/// else as above. `last`: the last parts of this worker's replicas; empty: there were none.
Element ended_part(const Distribution& distribution, std::size_t replica, const std::vector<Element>& last);

}  // namespace torch_distinput
