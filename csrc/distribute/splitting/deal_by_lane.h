// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Deals rows to parts, `sizes[p]` rows to part p: the rows of the first lanes to the first part, and so on,
/// so that two parts have rows of one lane only where they meet. Rows of a lane stay in order. Returns the
/// part of each row. REQUIRES: the sizes add up to the number of rows, which is below 2^31.
std::vector<std::int32_t> deal_by_lane(std::span<const double> lanes, std::span<const std::int64_t> sizes);

}  // namespace torch_distinput
