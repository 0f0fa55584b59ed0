// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/least_cost.h"

#include <optional>
#include <random>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(LeastCost, IsThatOfTheFirstOwnerOfTheLeast) {
  std::mt19937 random(1);
  for (const std::size_t count : {1, 2, 3, 7, 8, 9, 100}) {
    LeastCost least(count);
    std::vector<std::optional<double>> costs(count);
    for (int change = 0; change < 1000; ++change) {
      const std::size_t owner = random() % count;
      if (random() % 3 == 0) {
        costs[owner].reset();
        least.remove(owner);
      } else {
        costs[owner] = static_cast<double>(random() % 9) - 4;
        least.set(owner, *costs[owner]);
      }
      std::optional<std::size_t> expected;
      for (std::size_t i = 0; i < count; ++i) {
        if (costs[i] && (!expected || *costs[i] < *costs[*expected])) expected = i;
      }
      ASSERT_EQ(least.empty(), !expected);
      if (!expected) continue;
      ASSERT_EQ(least.owner(), *expected);
    }
  }
}

TEST(LeastCost, TellsApartWhatDiffersByAMillionthAndOrdersZeroes) {
  LeastCost least(1000);
  least.set(3, 1 + 1e-6);
  least.set(999, 1);
  EXPECT_EQ(least.owner(), 999);
  least.set(7, 0.0);
  least.set(5, -0.0);
  least.set(4, 0.0);
  EXPECT_EQ(least.owner(), 4);
}

}  // namespace
}  // namespace torch_distinput
