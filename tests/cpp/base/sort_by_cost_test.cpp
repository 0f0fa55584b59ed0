// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/sort_by_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

std::vector<std::int32_t> rows_of(const std::vector<SortedRow>& sorted) {
  std::vector<std::int32_t> rows;
  for (const SortedRow& row : sorted) rows.push_back(row.row);
  return rows;
}

TEST(SortByCost, IsAStableSortOfAnyCosts) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<double> costs(random() % 50);
    // Numbers that differ in all digits, in few, and in none.
    const int kind = i % 3;
    for (double& cost : costs) {
      const auto drawn = static_cast<double>(random() % 9);
      cost = kind == 0   ? std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 1500) - 1000)
             : kind == 1 ? drawn
                         : 3;
    }
    std::vector<std::int32_t> expected(costs.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
      return costs[static_cast<std::size_t>(a)] > costs[static_cast<std::size_t>(b)];
    });
    const auto sorted = dearest_first(costs);
    EXPECT_EQ(rows_of(sorted), expected);
    for (const SortedRow& row : sorted) EXPECT_EQ(row.cost, costs[static_cast<std::size_t>(row.row)]);
  }
}

TEST(SortByCost, TakesBothZeroesForEqual) {
  const std::vector<double> costs{0.0, -0.0, std::numeric_limits<double>::max(), -0.0};
  EXPECT_EQ(rows_of(dearest_first(costs)), (std::vector<std::int32_t>{2, 0, 1, 3}));
}

}  // namespace
}  // namespace torch_distinput
