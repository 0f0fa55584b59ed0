// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace torch_distinput {

/// 0, 1, ... n - 1.
inline std::vector<std::int64_t> iota(std::int64_t n) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

}  // namespace torch_distinput
