// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/deal_streams.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Shares = std::vector<std::int64_t>;

TEST(DealStreams, EachStreamBelongsToTheRankThatMakesItsRow) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    Shares shares(1 + random() % 7);
    for (auto& share : shares) share = static_cast<std::int64_t>(random() % 5);
    shares[random() % shares.size()] += 1;
    const std::int64_t rows = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
    const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 30);
    std::int64_t next = 0;
    std::int64_t first_row = 0;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      const StreamStates own = streams_of_rank(count, shares, static_cast<std::int64_t>(rank));
      ASSERT_EQ(own.begin, next);
      for (std::int64_t stream = own.begin; stream < own.end; ++stream) {
        const std::int64_t row = stream * rows / count;
        EXPECT_TRUE(first_row <= row && row < first_row + shares[rank]);
      }
      next = own.end;
      first_row += shares[rank];
    }
    EXPECT_EQ(next, count);
  }
}

}  // namespace
}  // namespace torch_distinput
