// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/deal_by_cost.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

std::vector<double> sums_of(const std::vector<double>& costs, const std::vector<std::int32_t>& parts,
                            std::size_t count) {
  std::vector<double> sums(count, 0.0);
  for (std::size_t row = 0; row < costs.size(); ++row)
    sums[static_cast<std::size_t>(parts[row])] += costs[row];
  return sums;
}

double spread(const std::vector<double>& sums) {
  return *std::max_element(sums.begin(), sums.end()) - *std::min_element(sums.begin(), sums.end());
}

TEST(DealByCost, GivesEachPartItsRowsForAnyCosts) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::int64_t> sizes(1 + random() % 7);
    for (auto& size : sizes) size = static_cast<std::int64_t>(random() % 6);
    std::vector<double> costs(
        static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})));
    for (auto& cost : costs) cost = static_cast<double>(random() % 20);
    const auto parts = deal_by_cost(costs, sizes);
    ASSERT_EQ(parts.size(), costs.size());
    for (std::size_t part = 0; part < sizes.size(); ++part)
      EXPECT_EQ(std::count(parts.begin(), parts.end(), static_cast<std::int32_t>(part)), sizes[part]);
    EXPECT_EQ(deal_by_cost(costs, sizes), parts);
  }
}

TEST(DealByCost, EvensOutLongTailedCosts) {
  std::mt19937 random(2);
  std::lognormal_distribution<double> length(5, 1);
  for (const std::int64_t parts : {2, 8, 64}) {
    std::vector<double> costs(static_cast<std::size_t>(parts) * 64);
    for (auto& cost : costs) cost = length(random);
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), 64);
    const auto sums = sums_of(costs, deal_by_cost(costs, sizes), sizes.size());
    EXPECT_LE(spread(sums), 0.01 * *std::max_element(sums.begin(), sums.end()));
  }
}

TEST(DealByCost, SwapsRowsWhereThatBringsPartsTogether) {
  // Longest first alone leaves 8 + 5 + 4 and 7 + 6 + 2.
  const std::vector<double> costs{8, 7, 6, 5, 4, 2};
  EXPECT_EQ(spread(sums_of(costs, deal_by_cost(costs, std::vector<std::int64_t>{3, 3}), 2)), 0);
}

}  // namespace
}  // namespace torch_distinput
