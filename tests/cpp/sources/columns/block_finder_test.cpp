// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_finder.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

/// The rows of a block are drawn from 1 to `most`, now and then far more.
std::vector<std::int64_t> random_starts(std::mt19937_64& random, std::size_t blocks, std::uint64_t most) {
  std::vector<std::int64_t> starts{0};
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::uint64_t times = random() % 20 == 0 ? 50 : 1;
    starts.push_back(starts.back() + static_cast<std::int64_t>(1 + random() % (most * times)));
  }
  return starts;
}

TEST(BlockFinder, FindsTheBlockOfEachRow) {
  std::mt19937_64 random(1);
  for (int tries = 0; tries < 200; ++tries) {
    const std::vector<std::int64_t> starts = random_starts(random, random() % 40, 1 + random() % 90);
    const BlockFinder block_of(starts);
    for (std::size_t block = 0; block + 1 < starts.size(); ++block) {
      for (std::int64_t row = starts[block]; row < starts[block + 1]; ++row) ASSERT_EQ(block_of(row), block);
    }
  }
}

TEST(BlockFinder, FindsTheEndsOfHugeBlocks) {
  const std::int64_t huge = std::int64_t{1} << 60;
  const std::vector<std::int64_t> starts{0, 1, huge, huge + 1, 2 * huge};
  const BlockFinder block_of(starts);
  for (std::size_t block = 0; block < 4; ++block) {
    EXPECT_EQ(block_of(starts[block]), block);
    EXPECT_EQ(block_of(starts[block + 1] - 1), block);
  }
}

}  // namespace
}  // namespace torch_distinput
