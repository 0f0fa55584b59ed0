// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/distinct.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Numbers = std::vector<std::size_t>;

TEST(Distinct, HasEachNumberOnceAtItsFirstPlace) {
  const Distinct found = distinct(Numbers{7, 3, 7, 7, 0, 3});
  EXPECT_EQ(found.values, (Numbers{7, 3, 0}));
  EXPECT_EQ(found.which, (Numbers{0, 1, 0, 0, 2, 1}));
  EXPECT_TRUE(distinct(Numbers{}).values.empty());
}

TEST(Distinct, TellsWhichOneEachNumberIs) {
  std::mt19937_64 random(1);
  for (int tries = 0; tries < 500; ++tries) {
    const std::size_t most = random() % 4 == 0 ? ~std::size_t{0} - 1 : 1 + random() % 300;
    // Multiples of a large power of two differ in their high bits alone.
    const std::size_t step = std::size_t{1} << (random() % 2 == 0 ? 0 : random() % 50);
    Numbers numbers(random() % 400);
    for (std::size_t& number : numbers) number = random() % most * step;
    const Distinct found = distinct(numbers);
    Numbers again;
    for (const std::size_t which : found.which) again.push_back(found.values.at(which));
    ASSERT_EQ(again, numbers);
    Numbers sorted = found.values;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  }
}

}  // namespace
}  // namespace torch_distinput
