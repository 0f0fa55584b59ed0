// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/lane_order.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/mix_keys.h"
#include "runtime/permutation.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

using Starts = std::vector<std::int64_t>;

std::vector<std::int64_t> order_of(const LaneOrder& order) {
  std::vector<std::int64_t> rows = numbers(0, order.size());
  order.apply(rows);
  return rows;
}

std::vector<std::int64_t> lanes_of(const LaneOrder& order) {
  std::vector<std::int64_t> lanes = numbers(0, order.size());
  order.apply_lanes(lanes);
  return lanes;
}

Starts random_starts(std::mt19937_64& random, std::size_t blocks, std::uint64_t most) {
  Starts starts{0};
  while (starts.size() <= blocks)
    starts.push_back(starts.back() + static_cast<std::int64_t>(random() % (most + 1)));
  return starts;
}

std::vector<Starts> many_starts() {
  std::mt19937_64 random(1);
  std::vector<Starts> all{{0}, {0, 0}, {0, 1}, {0, 5}, {0, 0, 1000, 1000, 1001}};
  for (std::int64_t rows = 0; rows < 40; ++rows) {
    auto& even = all.emplace_back(Starts{0});
    while (even.back() < rows) even.push_back(std::min(even.back() + 3, rows));
  }
  for (const std::size_t blocks : {2, 7, 63, 64, 65, 200, 900}) {
    for (const std::uint64_t most : {1, 6, 40}) all.push_back(random_starts(random, blocks, most));
  }
  return all;
}

/// The order by its definition: lists of rows, one step after the other.
std::vector<std::int64_t> plain_order(const Starts& starts, std::int64_t window, LaneOrder::Keys keys,
                                      std::int64_t lanes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    if (starts[i] < starts[i + 1]) blocks.emplace_back(starts[i], starts[i + 1]);
  }
  const auto count = static_cast<std::int64_t>(blocks.size());
  const auto rows_of = [](const std::vector<std::pair<std::int64_t, std::int64_t>>& own) {
    std::int64_t rows = 0;
    for (const auto& [begin, end] : own) rows += end - begin;
    return rows;
  };
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> dealt(static_cast<std::size_t>(lanes));
  const Permutation deal(count, mix_keys(keys.run, 0));
  auto in_order = blocks;
  for (std::int64_t i = 0; i < count; ++i)
    in_order[static_cast<std::size_t>(i)] = blocks[static_cast<std::size_t>(deal(i))];
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const auto& a, const auto& b) { return a.second - a.first > b.second - b.first; });
  for (const auto& block : in_order) {
    const auto shortest = std::min_element(
        dealt.begin(), dealt.end(), [&](const auto& a, const auto& b) { return rows_of(a) < rows_of(b); });
    shortest->push_back(block);
  }
  std::stable_sort(dealt.begin(), dealt.end(),
                   [&](const auto& a, const auto& b) { return rows_of(a) > rows_of(b); });
  const double mean = count == 0 ? 1 : static_cast<double>(starts.back()) / static_cast<double>(count);
  const auto window_rows = static_cast<std::int64_t>(
      std::clamp(mean * static_cast<double>(window), 1.0, std::max(1.0, static_cast<double>(starts.back()))));
  std::vector<std::int64_t> lengths;
  std::vector<std::vector<std::int64_t>> rows;
  for (std::size_t lane = 0; lane < dealt.size(); ++lane) {
    const Permutation order(std::ssize(dealt[lane]), mix_keys(mix_keys(keys.epoch, 1), lane + 1));
    std::vector<std::int64_t> lined_up;
    for (std::int64_t i = 0; i < order.size(); ++i) {
      const auto& [begin, end] = dealt[lane][static_cast<std::size_t>(order(i))];
      for (std::int64_t row = begin; row < end; ++row) lined_up.push_back(row);
    }
    const WindowedPermutation shuffled(std::ssize(lined_up), window_rows,
                                       mix_keys(mix_keys(keys.epoch, 2), lane));
    auto& own = rows.emplace_back();
    for (std::int64_t i = 0; i < std::ssize(lined_up); ++i)
      own.push_back(lined_up[static_cast<std::size_t>(shuffled(i))]);
    lengths.push_back(std::ssize(own));
  }
  std::vector<std::int64_t> result = numbers(0, starts.back());
  const auto turns = LaneTurns(lengths).at(result);
  for (std::size_t i = 0; i < turns.size(); ++i)
    result[i] = rows[static_cast<std::size_t>(turns[i].lane)][static_cast<std::size_t>(turns[i].place)];
  return result;
}

TEST(LaneOrderTest, IsABijectionAsDefined) {
  for (const Starts& starts : many_starts()) {
    for (const std::int64_t window : {1, 2, 5, 1000}) {
      const LaneOrder::Keys keys{7, 11};
      const LaneOrder order(starts, window, keys);
      const auto rows = order_of(order);
      ASSERT_EQ(sorted(rows), numbers(0, starts.back()));
      ASSERT_EQ(rows, plain_order(starts, window, keys, order.lanes()));
    }
  }
}

TEST(LaneOrderTest, AnyPositionsInAnyOrderGiveTheSameRows) {
  std::mt19937_64 random(3);
  for (const Starts& starts : many_starts()) {
    const LaneOrder order(starts, 2, {7, 11});
    const auto rows = order_of(order);
    std::vector<std::int64_t> positions = numbers(0, order.size());
    std::shuffle(positions.begin(), positions.end(), random);
    positions.resize(positions.size() / 2);
    std::vector<std::int64_t> found = positions;
    order.apply(found);
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(found[i], rows[static_cast<std::size_t>(positions[i])]);
  }
}

TEST(LaneOrderTest, ABlockStaysInItsLaneInEachEpoch) {
  for (const Starts& starts : many_starts()) {
    std::map<std::int64_t, std::int64_t> lane_of_block;
    for (const std::uint64_t epoch : {0, 1, 2}) {
      const LaneOrder order(starts, 2, {7, epoch});
      const auto rows = order_of(order);
      const auto lanes = lanes_of(order);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto block = std::upper_bound(starts.begin(), starts.end(), rows[i]) - starts.begin();
        ASSERT_EQ(lane_of_block.try_emplace(block, lanes[i]).first->second, lanes[i]);
      }
    }
  }
}

TEST(LaneOrderTest, EpochsAndRunsDiffer) {
  std::mt19937_64 random(4);
  const Starts starts = random_starts(random, 300, 20);
  const auto order = order_of(LaneOrder(starts, 2, {7, 0}));
  EXPECT_EQ(order, order_of(LaneOrder(starts, 2, {7, 0})));
  EXPECT_NE(order, order_of(LaneOrder(starts, 2, {7, 1})));
  EXPECT_NE(order, order_of(LaneOrder(starts, 2, {8, 0})));
}

TEST(LaneOrderTest, LanesFollowFromTheBlocks) {
  const auto lanes = [](std::int64_t blocks, std::int64_t window) {
    return LaneOrder(numbers(0, blocks + 1), window, {0, 0}).lanes();
  };
  EXPECT_EQ(lanes(0, 1), 1);
  EXPECT_EQ(lanes(1, 1), 1);
  EXPECT_EQ(lanes(63, 1), 32);
  EXPECT_EQ(lanes(64, 8), 64);
  EXPECT_EQ(lanes(4096, 4), 256);
  EXPECT_EQ(lanes(4096, 16), 64);
  EXPECT_EQ(lanes(100000, 1), 1024);
}

/// At most two windows of blocks of a lane, and the blocks at their ends, are in use at a time.
TEST(LaneOrderTest, FewBlocksAreInUse) {
  constexpr std::int64_t kRows = 8;
  constexpr std::int64_t kWindow = 3;
  Starts starts = numbers(0, 1001);
  for (auto& start : starts) start *= kRows;
  const LaneOrder order(starts, kWindow, {7, 0});
  const auto rows = order_of(order);
  std::map<std::int64_t, std::int64_t> left;
  std::int64_t most = 0;
  for (const std::int64_t row : rows) {
    if (++left[row / kRows] == kRows) left.erase(row / kRows);
    most = std::max(most, std::ssize(left));
  }
  EXPECT_LE(most, order.blocks_in_use());
  EXPECT_EQ(order.blocks_in_use(), order.lanes() * (2 * kWindow + 1));
}

/// How often a reader reads blocks that keeps those used last, as many as it is told.
std::int64_t reads_of(const Starts& starts, const LaneOrder& order) {
  std::list<std::int64_t> kept;
  std::map<std::int64_t, std::list<std::int64_t>::iterator> places;
  std::int64_t reads = 0;
  for (const std::int64_t row : order_of(order)) {
    const auto block = std::upper_bound(starts.begin(), starts.end(), row) - starts.begin();
    if (const auto found = places.find(block); found != places.end()) {
      kept.splice(kept.begin(), kept, found->second);
      continue;
    }
    ++reads;
    kept.push_front(block);
    places.emplace(block, kept.begin());
    if (std::ssize(kept) > order.blocks_to_keep()) {
      places.erase(kept.back());
      kept.pop_back();
    }
  }
  return reads;
}

TEST(LaneOrderTest, EachBlockIsReadOnceByAReaderThatKeepsThoseUsedLast) {
  std::mt19937_64 random(6);
  for (const std::int64_t window : {1, 2, 4}) {
    for (const std::uint64_t most : {1, 12, 40}) {
      const Starts starts = random_starts(random, 3000, most);
      const LaneOrder order(starts, window, {random(), random()});
      std::int64_t blocks = 0;
      for (std::size_t block = 1; block < starts.size(); ++block) blocks += starts[block] > starts[block - 1];
      EXPECT_LE(reads_of(starts, order), blocks + blocks / 500) << window << " " << most;
    }
    Starts even = numbers(0, 3001);
    for (auto& start : even) start *= 13;
    EXPECT_EQ(reads_of(even, LaneOrder(even, window, {7, 1})), 3000) << window;
  }
}

TEST(LaneOrderTest, RefusesWhatIsNoBlocks) {
  EXPECT_THROW(LaneOrder(Starts{}, 1, {0, 0}), std::invalid_argument);
  EXPECT_THROW(LaneOrder(Starts{1, 2}, 1, {0, 0}), std::invalid_argument);
  EXPECT_THROW(LaneOrder(Starts{0, 2, 1}, 1, {0, 0}), std::invalid_argument);
  EXPECT_THROW(LaneOrder(Starts{0, 2}, 0, {0, 0}), std::invalid_argument);
}

}  // namespace
}  // namespace torch_distinput
