// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// A row, by its number among those that are sorted, and what it costs.
struct SortedRow {
  double cost;
  std::int32_t row;
};

/// The rows with these costs, dearest first, equal ones in order. REQUIRES: fewer than 2^31 costs, which are
/// finite and at least 0.
std::vector<SortedRow> dearest_first(std::span<const double> costs);

}  // namespace torch_distinput
