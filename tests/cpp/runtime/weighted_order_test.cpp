// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/weighted_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

using Weights = std::vector<double>;
using Rows = std::vector<std::int64_t>;

/// All rows of weight above 0, sorted by log(u) / w.
Rows model(const Weights& weights, std::uint64_t key) {
  std::vector<std::pair<double, std::int64_t>> all;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    const double u = 1 - static_cast<double>(mix_keys(key, row) >> 11) * 0x1p-53;
    if (weights[row] > 0) all.emplace_back(-std::log(u) / weights[row], static_cast<std::int64_t>(row));
  }
  std::sort(all.begin(), all.end());
  Rows rows;
  for (const auto& [time, row] : all) rows.push_back(row);
  return rows;
}

TEST(WeightedOrderTest, IsTheBeginningOfTheWholeOrder) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; ++round) {
    Weights weights(1 + random() % 80);
    for (double& weight : weights) weight = static_cast<double>(random() % 5);
    weights[random() % weights.size()] = 2;
    const std::uint64_t key = random();
    const Rows all = model(weights, key);
    for (std::size_t count = 1; count <= all.size(); ++count) {
      ASSERT_EQ(weighted_order(weights, static_cast<std::int64_t>(count), key),
                Rows(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)))
          << "round " << round << ", " << count << " of " << all.size();
    }
  }
}

TEST(WeightedOrderTest, DrawsPairsWithTheProbabilitiesOfDrawsWithoutReplacement) {
  const Weights weights{1, 2, 3, 4};
  constexpr int kRounds = 60'000;
  std::map<Rows, int> found;
  for (std::uint64_t key = 0; key < kRounds; ++key) ++found[weighted_order(weights, 2, key)];
  double chi_square = 0;
  for (std::int64_t a = 0; a < 4; ++a) {
    for (std::int64_t b = 0; b < 4; ++b) {
      if (a == b) continue;
      const double first = weights[static_cast<std::size_t>(a)];
      const double expected = kRounds * first / 10 * weights[static_cast<std::size_t>(b)] / (10 - first);
      chi_square += std::pow(found[{a, b}] - expected, 2) / expected;
    }
  }
  EXPECT_LT(chi_square, 11 + 5 * std::sqrt(22.0));
}

TEST(WeightedOrderTest, OrdersWeightsOfAnyMagnitude) {
  const Weights weights{1e308, 5e-324, 1e-300, 0, 1e308};
  const Rows rows = weighted_order(weights, 4, 1);
  EXPECT_EQ(std::set<std::int64_t>(rows.begin(), rows.begin() + 2), (std::set<std::int64_t>{0, 4}));
  EXPECT_EQ(std::set<std::int64_t>(rows.begin(), rows.end()), (std::set<std::int64_t>{0, 1, 2, 4}));
}

}  // namespace
}  // namespace torch_distinput
