// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// \file
/// How far batches in the order of lanes are from those of a full shuffle, where this is worst: each block
/// has rows of one class.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/lane_order.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kBlocks = 4096;
constexpr std::int64_t kRows = 32;  // of a block
constexpr std::int64_t kClasses = 64;

std::int64_t class_of(std::int64_t row) { return row / kRows * kClasses / kBlocks; }

std::vector<std::int64_t> block_starts() {
  std::vector<std::int64_t> starts = numbers(0, kBlocks + 1);
  for (auto& start : starts) start *= kRows;
  return starts;
}

/// The variance of the number of rows of a class in a batch, as a multiple of that after a full shuffle.
double excess_variance(std::int64_t window, std::int64_t batch, std::uint64_t epochs) {
  constexpr std::int64_t kAll = kBlocks * kRows;
  const double mean = static_cast<double>(batch) / kClasses;
  double squares = 0;
  double counted = 0;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<std::int64_t> rows = numbers(0, kAll);
    LaneOrder(block_starts(), window, {epoch, epoch}).apply(rows);
    for (std::int64_t begin = 0; begin + batch <= kAll; begin += batch) {
      std::vector<double> counts(kClasses);
      for (std::int64_t p = begin; p < begin + batch; ++p)
        ++counts[static_cast<std::size_t>(class_of(rows[static_cast<std::size_t>(p)]))];
      for (const double count : counts) squares += (count - mean) * (count - mean);
      counted += kClasses;
    }
  }
  const auto all = static_cast<double>(kAll);
  const double full = mean * (1 - 1.0 / kClasses) * (all - static_cast<double>(batch)) / (all - 1);
  return squares / counted / full;
}

TEST(LaneQualityTest, ClassCountsVaryAsTold) {
  for (const std::int64_t window : {1, 4, 32}) {
    const LaneOrder order(block_starts(), window, {0, 0});
    for (const std::int64_t batch : {100, 1000, 4096}) {
      const double told = order.class_variance(batch);
      EXPECT_NEAR(excess_variance(window, batch, 2), told, 0.1 * told) << window << " " << batch;
      const double most = 1 + static_cast<double>(batch) / static_cast<double>(2 * order.lanes() * window);
      EXPECT_LE(told, most);
    }
  }
}

/// The rows of a block come within as small a part of the epoch as the blocks in use are of all.
TEST(LaneQualityTest, RowsOfABlockStayTogether) {
  for (const std::int64_t window : {1, 4, 8}) {
    const LaneOrder order(block_starts(), window, {0, 0});
    std::vector<std::int64_t> rows = numbers(0, order.size());
    order.apply(rows);
    std::vector<std::int64_t> first(kBlocks, -1);
    std::vector<std::int64_t> last(kBlocks);
    for (std::int64_t p = 0; p < order.size(); ++p) {
      const auto block = static_cast<std::size_t>(rows[static_cast<std::size_t>(p)] / kRows);
      if (first[block] < 0) first[block] = p;
      last[block] = p;
    }
    for (std::size_t block = 0; block < kBlocks; ++block)
      ASSERT_LE(last[block] - first[block], order.blocks_in_use() * kRows) << window;
  }
}

}  // namespace
}  // namespace torch_distinput
