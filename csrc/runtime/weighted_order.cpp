// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/weighted_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

/// -log(u) / w and the row: its order is that of u^(1/w), the largest first, but no power underflows to 0.
using TimeAndRow = std::pair<double, std::int64_t>;

double time_of(double weight, std::uint64_t bits) {
  const double below_one = static_cast<double>(bits >> 11) * 0x1p-53;
  return -std::log1p(-below_one) / weight;
}

}  // namespace

std::vector<std::int64_t> weighted_order(std::span<const double> weights, std::int64_t count,
                                         std::uint64_t key) {
  const auto wanted = static_cast<std::size_t>(count);
  // Twice as many are held as are wanted, and cut to the first ones whenever there is no room: O(1) a row.
  std::vector<TimeAndRow> first;
  first.reserve(std::min(2 * wanted, weights.size()));
  double last = std::numeric_limits<double>::infinity();
  const auto cut = [&] {
    const auto end = first.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(first.begin(), end - 1, first.end());
    first.erase(end, first.end());
    last = first.back().first;
  };
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (weights[row] <= 0) continue;
    const double time = time_of(weights[row], mix_keys(key, row));
    if (time > last) continue;
    first.emplace_back(time, static_cast<std::int64_t>(row));
    if (first.size() == 2 * wanted) cut();
  }
  if (first.size() > wanted) cut();
  std::sort(first.begin(), first.end());
  std::vector<std::int64_t> rows;
  rows.reserve(first.size());
  for (const TimeAndRow& found : first) rows.push_back(found.second);
  return rows;
}

}  // namespace torch_distinput
