// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/deal_by_lane.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "distribute/splitting/splitter.h"
#include "runtime/lane_order.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

using Parts = std::vector<std::int32_t>;

TEST(DealByLane, GivesThePartsLanesInTurn) {
  const std::vector<double> lanes{2, 0, 1, 0, 2, 1};
  EXPECT_EQ(deal_by_lane(lanes, std::vector<std::int64_t>{2, 2, 2}), (Parts{2, 0, 1, 0, 2, 1}));
  EXPECT_EQ(deal_by_lane(lanes, std::vector<std::int64_t>{3, 0, 3}), (Parts{2, 0, 0, 0, 2, 2}));
  EXPECT_EQ(deal_by_lane({}, std::vector<std::int64_t>{0, 0}), Parts{});
}

TEST(DealByLane, GivesEachPartItsSizeAndCutsALaneOnlyWherePartsMeet) {
  std::mt19937_64 random(1);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto rows = static_cast<std::int64_t>(random() % 100);
    const auto sizes = even_shares(rows, static_cast<std::int64_t>(1 + random() % 9));
    std::vector<double> lanes(static_cast<std::size_t>(rows));
    for (double& lane : lanes) lane = static_cast<double>(random() % 8);
    const Parts parts = deal_by_lane(lanes, sizes);
    std::vector<std::int64_t> counts(sizes.size());
    for (const std::int32_t part : parts) ++counts[static_cast<std::size_t>(part)];
    ASSERT_EQ(counts, sizes);
    for (std::size_t a = 0; a < lanes.size(); ++a) {
      for (std::size_t b = 0; b < lanes.size(); ++b) {
        if (lanes[a] < lanes[b] || (lanes[a] == lanes[b] && a < b)) {
          ASSERT_LE(parts[a], parts[b]);
        }
      }
    }
  }
}

/// The lanes and the blocks of the rows of an epoch, in order.
struct Epoch {
  std::vector<double> lanes;
  std::vector<std::int64_t> blocks;
};

Epoch epoch_of(const std::vector<std::int64_t>& starts, std::int64_t window) {
  const LaneOrder order(starts, window, {1, 1});
  std::vector<std::int64_t> rows = numbers(0, order.size());
  std::vector<std::int64_t> lanes = rows;
  order.apply(rows);
  order.apply_lanes(lanes);
  for (std::int64_t& row : rows) row = std::upper_bound(starts.begin(), starts.end(), row) - starts.begin();
  return {{lanes.begin(), lanes.end()}, rows};
}

/// The nodes that read a block, on average, where `nodes` share each batch.
double downloads(const Epoch& epoch, std::size_t batch, std::int64_t nodes) {
  std::set<std::pair<std::int64_t, std::int32_t>> read;
  for (std::size_t begin = 0; begin < epoch.lanes.size(); begin += batch) {
    const auto lanes = std::span(epoch.lanes).subspan(begin, std::min(batch, epoch.lanes.size() - begin));
    const Parts parts = deal_by_lane(lanes, even_shares(std::ssize(lanes), nodes));
    for (std::size_t i = 0; i < parts.size(); ++i) read.emplace(epoch.blocks[begin + i], parts[i]);
  }
  const std::set<std::int64_t> blocks(epoch.blocks.begin(), epoch.blocks.end());
  return static_cast<double>(read.size()) / static_cast<double>(blocks.size());
}

TEST(DealByLane, HasBlocksReadByOneNodeButWherePartsMeet) {
  std::vector<std::int64_t> starts = numbers(0, 4097);
  for (auto& start : starts) start *= 16;
  const Epoch epoch = epoch_of(starts, 4);
  for (const std::int64_t nodes : {1, 2, 3, 4, 7, 8, 16, 33, 48, 64}) {
    const double cuts = static_cast<double>(nodes - 1) / 256;
    EXPECT_LE(downloads(epoch, 1024, nodes), 1 + cuts + 0.01) << nodes;
  }
}

/// Lanes that are not equally long, or do not divide the batch, move the cuts a little from batch to batch.
TEST(DealByLane, CutsAreNearlyAsFewWithUnevenBlocksAndBatches) {
  std::mt19937_64 random(2);
  std::vector<std::int64_t> starts{0};
  while (starts.size() < 4200) starts.push_back(starts.back() + 1 + static_cast<std::int64_t>(random() % 31));
  const Epoch epoch = epoch_of(starts, 4);
  for (const std::int64_t nodes : {1, 2, 3, 4, 7, 8, 16, 33}) {
    const double cuts = static_cast<double>(nodes - 1) / 256;
    EXPECT_LE(downloads(epoch, 1000, nodes), 1 + 1.5 * cuts + 0.01) << nodes;
  }
}

}  // namespace
}  // namespace torch_distinput
