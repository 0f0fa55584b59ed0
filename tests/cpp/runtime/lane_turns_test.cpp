// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/lane_turns.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/numbers.h"

namespace torch_distinput {
namespace {

using Turns = std::vector<std::pair<std::int64_t, std::int64_t>>;  // lanes and places

Turns turns_at(const LaneTurns& turns, const std::vector<std::int64_t>& positions) {
  Turns result;
  for (const auto& [lane, place] : turns.at(positions)) result.emplace_back(lane, place);
  return result;
}

std::vector<std::vector<std::int64_t>> random_lengths() {
  std::mt19937_64 random(5);
  std::vector<std::vector<std::int64_t>> all{{0}, {1}, {7}, {0, 3}, {4, 4}, {1, 1000}, {0, 0, 0, 5}};
  for (const std::size_t lanes : {1, 2, 4, 8, 64}) {
    for (const std::uint64_t most : {2, 30, 200}) {
      auto& lengths = all.emplace_back(lanes);
      for (auto& length : lengths) length = static_cast<std::int64_t>(random() % most);
    }
  }
  return all;
}

TEST(LaneTurnsTest, EachLaneHasItsTurnsInOrder) {
  for (const auto& lengths : random_lengths()) {
    const LaneTurns turns(lengths);
    std::vector<std::int64_t> next(lengths.size());
    for (const auto& [lane, place] : turns_at(turns, numbers(0, turns.size())))
      ASSERT_EQ(place, next[static_cast<std::size_t>(lane)]++);
    ASSERT_EQ(next, lengths);
  }
}

TEST(LaneTurnsTest, IsThePositionAloneThatDecides) {
  std::mt19937_64 random(6);
  for (const auto& lengths : random_lengths()) {
    const LaneTurns turns(lengths);
    std::vector<std::int64_t> positions = numbers(0, turns.size());
    const Turns all = turns_at(turns, positions);
    std::shuffle(positions.begin(), positions.end(), random);
    const Turns shuffled = turns_at(turns, positions);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const Turns expected{all[static_cast<std::size_t>(positions[i])]};
      ASSERT_EQ(shuffled[i], expected.front());
      if (i < 100) {
        ASSERT_EQ(turns_at(turns, {positions[i]}), expected);
      }
    }
  }
}

TEST(LaneTurnsTest, LanesOfEqualLengthTakeTurnsInRounds) {
  const LaneTurns turns({5, 5, 5, 5});
  const Turns round = turns_at(turns, numbers(8, 12));
  EXPECT_EQ(round, (Turns{{0, 2}, {2, 2}, {1, 2}, {3, 2}}));
}

TEST(LaneTurnsTest, LanesAdvanceInProportionToTheirLengths) {
  for (const auto& lengths : random_lengths()) {
    const LaneTurns turns(lengths);
    const auto lanes = static_cast<double>(lengths.size());
    const auto size = static_cast<double>(turns.size());
    const Turns all = turns_at(turns, numbers(0, turns.size()));
    const double longest = static_cast<double>(*std::max_element(lengths.begin(), lengths.end()));
    for (std::size_t p = 0; p < all.size(); ++p) {
      const auto length = static_cast<double>(lengths[static_cast<std::size_t>(all[p].first)]);
      // The lanes before it in the round, and those ahead of their share, shift a turn by two rounds at most.
      const double rounds = 1 + 2 * lanes * longest / size;
      ASSERT_NEAR(static_cast<double>(all[p].second), static_cast<double>(p) * length / size,
                  1 + rounds * length / longest);
    }
  }
}

TEST(LaneTurnsTest, BeginsAnywhereInVeryLongLanes) {
  constexpr std::int64_t kLong = std::int64_t{1} << 58;
  const LaneTurns turns({kLong, kLong - 1, kLong, 12345});
  const std::int64_t middle = turns.size() / 2;
  const Turns run = turns_at(turns, numbers(middle, middle + 100));
  for (std::int64_t i = 0; i < 100; ++i)
    ASSERT_EQ(turns_at(turns, {middle + i}).front(), run[static_cast<std::size_t>(i)]);
  const Turns last = turns_at(turns, {turns.size() - 1});
  EXPECT_EQ(last.front().second, turns.length(last.front().first) - 1);
}

}  // namespace
}  // namespace torch_distinput
