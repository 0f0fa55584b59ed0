// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/chosen_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Place = InputOrder::Place;

constexpr std::int64_t kChoices = 2000;

class ChosenOrderTest : public testing::TestWithParam<std::size_t> {
 protected:
  ChosenOrderTest() : order_(GetParam()), counts_(GetParam(), 0) {
    std::mt19937_64 random(GetParam());
    for (std::int64_t i = 0; i < kChoices; ++i) {
      const std::size_t input = random() % GetParam();
      order_.push(input);
      places_.push_back({input, counts_[input]++});
    }
  }

  ChosenOrder order_;
  std::vector<Place> places_;         ///< what is where
  std::vector<std::int64_t> counts_;  ///< of all choices
};

TEST_P(ChosenOrderTest, LocatesEachPosition) {
  ASSERT_EQ(order_.size(), kChoices);
  for (std::int64_t i = 0; i < kChoices; ++i)
    ASSERT_EQ(order_.locate(i), places_[static_cast<std::size_t>(i)]) << i;
}

TEST_P(ChosenOrderTest, LocatesRunsAsItLocatesEachPosition) {
  for (const std::int64_t begin : {0, 1, 255, 256, 700, 1999}) {
    for (const std::int64_t count : {0, 1, 64, 600}) {
      if (begin + count > kChoices) continue;
      std::vector<Place> found(static_cast<std::size_t>(count));
      order_.locate_run(begin, count, [&](std::size_t input, std::int64_t first, auto offsets) {
        for (const std::int64_t offset : offsets) found[static_cast<std::size_t>(offset)] = {input, first++};
      });
      const std::span expected = std::span(places_).subspan(static_cast<std::size_t>(begin), found.size());
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin())) << begin << ", " << count;
    }
  }
}

TEST_P(ChosenOrderTest, CountsWhatLiesBefore) {
  std::vector<std::int64_t> counts(GetParam(), 0);
  for (std::int64_t i = 0; i < kChoices; ++i) {
    if (i % 97 == 0 || i % 256 < 2) {
      ASSERT_EQ(order_.counts(i), counts) << i;
    }
    ++counts[places_[static_cast<std::size_t>(i)].input];
  }
  EXPECT_EQ(order_.counts(kChoices), counts);
  for (std::size_t input = 0; input < GetParam(); ++input) EXPECT_EQ(order_.chosen(input), counts[input]);
}

INSTANTIATE_TEST_SUITE_P(Inputs, ChosenOrderTest, testing::Values(1, 2, 7, 100, 256, 257, 70000));

}  // namespace
}  // namespace torch_distinput
