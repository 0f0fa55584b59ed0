// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Draws `count` rows one after the other, without putting any back, each with a probability in proportion to
/// its weight among those that are left. These are the first rows in the order of u^(1/w), from the largest
/// on, for one random number u a row (Efraimidis and Spirakis), which is a function of `key` and the row.
/// O(n + count log count) time, O(count) memory.
/// REQUIRES: finite weights of at least 0, and `count` is at least 1 and at most the number of those above 0.
std::vector<std::int64_t> weighted_order(std::span<const double> weights, std::int64_t count,
                                         std::uint64_t key);

}  // namespace torch_distinput
