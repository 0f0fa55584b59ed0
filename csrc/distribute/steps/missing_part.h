// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// What a replica without rows gets: zero rows, or a whole element like those of the data.
Element missing_part(const Distribution& distribution);

/// What a replica gets when its worker's own stream has ended before those of others. Under `kPadded` the
/// last row of `last`, `full` times, or as many rows of zeros where there is none; else as above. `full`: the
/// rows of a full part. `last`: the replica's last part that had rows.
Element ended_part(const Distribution& distribution, std::int64_t full, const std::optional<Element>& last);

}  // namespace torch_distinput
