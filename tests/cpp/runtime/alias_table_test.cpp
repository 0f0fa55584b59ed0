// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/alias_table.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Weights = std::vector<double>;
using Counts = std::vector<std::int64_t>;

Counts counts(const Weights& weights, std::uint64_t key, std::int64_t draws) {
  const AliasTable table(weights);
  Counts found(weights.size(), 0);
  for (std::int64_t number = 0; number < draws; ++number)
    ++found[static_cast<std::size_t>(table.draw(key, static_cast<std::uint64_t>(number)))];
  return found;
}

/// How far the counts are from the shares of `weights`, in standard deviations of the chi-square sum.
double deviation(const Weights& weights, const Counts& found) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto draws = static_cast<double>(std::accumulate(found.begin(), found.end(), std::int64_t{0}));
  double chi_square = 0;
  double degrees = -1;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (weights[row] == 0) {
      EXPECT_EQ(found[row], 0) << "row " << row << " has no weight";
      continue;
    }
    const double expected = draws * weights[row] / total;
    chi_square += std::pow(static_cast<double>(found[row]) - expected, 2) / expected;
    ++degrees;
  }
  return (chi_square - degrees) / std::sqrt(2 * std::max(degrees, 1.0));
}

TEST(AliasTableTest, DrawsByWeight) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 40; ++round) {
    Weights weights(1 + random() % 60);
    for (double& weight : weights) weight = random() % 4 == 0 ? 0.0 : static_cast<double>(random() % 1000);
    weights[random() % weights.size()] = 500;
    EXPECT_LT(std::abs(deviation(weights, counts(weights, random(), 40'000))), 6) << "round " << round;
  }
}

TEST(AliasTableTest, DrawsEqualWeightsEqually) {
  for (const double weight : {1.0, 0.1, 1e-300, 1e308, 5e-324}) {
    const Weights weights(7, weight);
    EXPECT_LT(std::abs(deviation(Weights(7, 1.0), counts(weights, 3, 70'000))), 5) << weight;
  }
}

TEST(AliasTableTest, DrawsOneHeavyRowAmongMany) {
  Weights weights(1000, 1.0);
  weights[431] = 1e6;
  const Counts found = counts(weights, 9, 1'000'000);
  EXPECT_NEAR(static_cast<double>(found[431]), 1e12 / (1e6 + 999), 200);
}

TEST(AliasTableTest, NeverDrawsARowOfNoWeight) {
  for (const std::size_t size : {3, 7, 10, 49, 1000}) {
    Weights weights(size, 0.1);  // sums of tenths are rounded
    for (std::size_t row = 0; row < size; row += 3) weights[row] = 0;
    weights.back() = 0;
    deviation(weights, counts(weights, size, 20'000));
  }
}

TEST(AliasTableTest, AlwaysDrawsTheOnlyRowOfAnyWeight) {
  const Weights weights{0, 0, 1e-12, 0};
  EXPECT_EQ(counts(weights, 1, 1000), (Counts{0, 0, 1000, 0}));
  EXPECT_EQ(counts({3}, 1, 10), Counts{10});
}

TEST(AliasTableTest, DrawsByWeightAmongManyRows) {
  const std::size_t size = std::size_t{1} << 20;
  Weights weights(size, 1.0);
  for (std::size_t row = 0; row < size; row += 2) weights[row] = 0.5;
  std::int64_t light = 0;
  const AliasTable table(weights);
  constexpr int kDraws = 300'000;
  for (int number = 0; number < kDraws; ++number) light += table.draw(4, number) % 2 == 0 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(light) / kDraws, 1.0 / 3, 5 * std::sqrt(2.0 / 9 / kDraws));
}

TEST(AliasTableTest, DrawsDependOnKeyAndNumberAlone) {
  const Weights weights{1, 2, 3, 4, 5};
  const AliasTable one(weights);
  const AliasTable other(weights);
  std::int64_t differences = 0;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    EXPECT_EQ(one.draw(7, number), other.draw(7, number));
    differences += one.draw(7, number) != one.draw(8, number) ? 1 : 0;
  }
  EXPECT_GT(differences, 600);
}

}  // namespace
}  // namespace torch_distinput
