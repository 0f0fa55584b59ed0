// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// The part of a replica without rows: `zero_part`, or `zero_element` if replicas take whole elements. Throws
/// as they do.
Element missing_part(const Distribution& distribution);

/// The part of a replica whose rank's own stream has ended before those of others. Under `kPadded`, `full`
/// times the last row of `last`, or `full` rows of zeros without `last`; otherwise `missing_part`. `full`:
/// the rows of a full part. `last`: the replica's last part that had rows.
Element ended_part(const Distribution& distribution, std::int64_t full, const std::optional<Element>& last);

}  // namespace torch_distinput
