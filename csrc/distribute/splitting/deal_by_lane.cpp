// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/deal_by_lane.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace torch_distinput {

std::vector<std::int32_t> deal_by_lane(std::span<const double> lanes, std::span<const std::int64_t> sizes) {
  std::vector<std::size_t> rows(lanes.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::stable_sort(rows.begin(), rows.end(),
                   [&](std::size_t a, std::size_t b) { return lanes[a] < lanes[b]; });
  std::vector<std::int32_t> parts(lanes.size());
  auto row = rows.begin();
  for (std::size_t part = 0; part < sizes.size(); ++part) {
    for (std::int64_t i = 0; i < sizes[part]; ++i) parts[*row++] = static_cast<std::int32_t>(part);
  }
  return parts;
}

}  // namespace torch_distinput
