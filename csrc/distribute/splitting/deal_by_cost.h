// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Deals rows to parts, `sizes[p]` rows to part p, so that the parts cost about the same: the dearest row
/// that is left goes to the cheapest part with room, and then rows of the dearest and the cheapest part
/// change places as long as that helps. A pure function of its arguments: the same on every machine. Returns
/// the part of each row. REQUIRES: the sizes add up to the number of rows, which is below 2^31; costs are
/// finite.
std::vector<std::int32_t> deal_by_cost(std::span<const double> costs, std::span<const std::int64_t> sizes);

}  // namespace torch_distinput
