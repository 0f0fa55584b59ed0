// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/keyed_split.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Side = KeyedSplit::Side;

constexpr double kShares[] = {0.5, 0.4999, 0.45, 1.0 / 3, 0.3, 0.25, 0.1, 1.0 / 7, 0.01, 1e-3};

TEST(KeyedSplitTest, NumbersThePositionsOfEachSideInOrder) {
  for (const double share : kShares) {
    const KeyedSplit split(share, 3);
    std::int64_t rare = 0;
    for (std::int64_t position = 0; position < 3000; ++position) {
      ASSERT_EQ(split.rare_before(position), rare) << share << " " << position;
      const KeyedSplit::Deal deal = split.deal(position);
      ASSERT_EQ(deal.number, deal.side == Side::kRare ? rare : position - rare) << share << " " << position;
      ASSERT_EQ(split.position_of(deal.side, deal.number), position) << share;
      ASSERT_LE(split.earliest_position_of(deal.side, deal.number), position) << share;
      rare += deal.side == Side::kRare ? 1 : 0;
    }
  }
}

TEST(KeyedSplitTest, DealsARunAsOneByOne) {
  for (const double share : kShares) {
    for (const std::int64_t begin : {0L, 1L, 17L, 123'456'789'012L}) {
      const KeyedSplit split(share, 5);
      for (const std::size_t count : {0, 1, 2, 500}) {
        std::vector<std::int64_t> offsets(count);
        std::iota(offsets.begin(), offsets.end(), 0);
        std::vector<std::int64_t> rare(count);
        rare.resize(split.deal_run(begin, offsets, rare.data()));
        offsets.resize(count - rare.size());
        std::vector<std::int64_t> expected_rare;
        std::vector<std::int64_t> expected_common;
        for (std::int64_t offset = 0; offset < static_cast<std::int64_t>(count); ++offset) {
          const bool is_rare = split.deal(begin + offset).side == Side::kRare;
          (is_rare ? expected_rare : expected_common).push_back(offset);
        }
        EXPECT_EQ(rare, expected_rare) << share << " " << begin;
        EXPECT_EQ(offsets, expected_common) << share << " " << begin;
      }
    }
  }
}

TEST(KeyedSplitTest, KeepsTheShareOfEveryPrefixWithinOneElement) {
  std::mt19937_64 random(1);
  for (const double share : kShares) {
    for (const std::uint64_t key : {1, 2, 3}) {
      const KeyedSplit split(share, key);
      for (std::int64_t position = 0; position < 2000; ++position)
        ASSERT_LE(std::abs(static_cast<double>(split.rare_before(position)) -
                           share * static_cast<double>(position)),
                  1 + 1e-9);
      for (int i = 0; i < 200; ++i) {
        const auto position = static_cast<std::int64_t>(random() % 1'000'000'000'000);
        const auto expected = static_cast<double>(position) * share;
        ASSERT_LE(std::abs(static_cast<double>(split.rare_before(position)) - expected), 1.01) << position;
        const KeyedSplit::Deal deal = split.deal(position);
        ASSERT_EQ(split.position_of(deal.side, deal.number), position);
        ASSERT_EQ(split.rare_before(position + 1) - split.rare_before(position),
                  deal.side == Side::kRare ? 1 : 0);
      }
    }
  }
}

TEST(KeyedSplitTest, FindsTheEarliestPositionOfAnyKey) {
  for (const double share : {0.5, 0.4, 0.3, 0.2}) {
    for (const Side side : {Side::kRare, Side::kCommon}) {
      for (std::int64_t number = 0; number < 8; ++number) {
        std::set<std::int64_t> found;
        for (std::uint64_t key = 0; key < 2000; ++key)
          found.insert(KeyedSplit(share, key).position_of(side, number));
        EXPECT_EQ(KeyedSplit(share, 0).earliest_position_of(side, number), *found.begin())
            << share << " " << number;
      }
    }
  }
}

TEST(KeyedSplitTest, BeginsTheStrataOfAThirdAtEveryThirdPosition) {
  const KeyedSplit split(1.0 / 3, 2);
  for (const std::int64_t number : {0L, 1L, 1000L, 1'000'000'000'000L}) {
    EXPECT_EQ(split.earliest_position_of(Side::kRare, number), 3 * number);
    EXPECT_EQ(split.earliest_position_of(Side::kCommon, 2 * number), 3 * number);
  }
}

TEST(KeyedSplitTest, DrawsEachPlaceOfAStratumEquallyOften) {
  int first = 0;
  const KeyedSplit split(0.5, 7);
  for (std::int64_t position = 0; position < 2000; position += 2)
    first += split.deal(position).side == Side::kRare ? 1 : 0;
  EXPECT_NEAR(first, 500, 70);
}

TEST(KeyedSplitTest, NeverReachesPositionsBeyondItsRange) {
  const KeyedSplit split(0, 1);
  EXPECT_EQ(split.position_of(Side::kRare, 1), std::int64_t{1} << 62 | split.position_of(Side::kRare, 1));
  EXPECT_EQ(split.position_of(Side::kRare, 2), kNever);
  EXPECT_EQ(split.position_of(Side::kCommon, kNever), kNever);
  EXPECT_EQ(KeyedSplit(0.5, 1).position_of(Side::kCommon, std::int64_t{1} << 62), kNever);
}

}  // namespace
}  // namespace torch_distinput
