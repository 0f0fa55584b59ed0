// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/batch_sizes.h"

#include <algorithm>
#include <numeric>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(BatchSizes, MatchTheRecordedOnes) {
  EXPECT_EQ(batch_sizes_for_worker(7, 2, 2, 0), (Sizes{2, 2, 2, 1}));
  EXPECT_EQ(batch_sizes_for_worker(7, 2, 2, 1), (Sizes{2, 1, 2, 2}));
  EXPECT_EQ(batch_sizes_for_worker(4, 3, 1, 1), (Sizes{1, 1, 2}));
  EXPECT_EQ(batch_sizes_for_worker(4, 2, 5, 1), (Sizes{0, 0, 0, 0, 0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(batch_sizes_for_worker(0, 1, 2, 0), (Sizes{0, 0}));
}

TEST(BatchSizes, OfOddArgumentsMatchTheRecordedOnes) {
  EXPECT_EQ(batch_sizes_for_worker(-1, 2, 2, 1), (Sizes{0, -1, 0, 0}));
  EXPECT_EQ(batch_sizes_for_worker(-3, 1, 2, 0), (Sizes{-1, -2}));
  EXPECT_EQ(batch_sizes_for_worker(5, 2, 1, 5), (Sizes{3, 2}));
  EXPECT_EQ(batch_sizes_for_worker(5, 2, 2, -1), (Sizes{1, 1, 2, 1}));
}

TEST(BatchSizes, AddUpToTheBatchAtEveryStep) {
  for (std::int64_t batch = 0; batch <= 13; ++batch) {
    for (std::int64_t workers = 1; workers <= 4; ++workers) {
      for (std::int64_t replicas = 1; replicas <= 3; ++replicas) {
        Sizes step_sums(static_cast<std::size_t>(workers));
        for (std::int64_t w = 0; w < workers; ++w) {
          const Sizes sizes = batch_sizes_for_worker(batch, workers, replicas, w);
          ASSERT_EQ(std::ssize(sizes), workers * replicas);
          EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), batch);
          const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
          EXPECT_LE(*most - *least, 1);
          for (std::size_t k = 0; k < sizes.size(); ++k)
            step_sums[k / static_cast<std::size_t>(replicas)] += sizes[k];
        }
        EXPECT_EQ(step_sums, Sizes(step_sums.size(), batch));
      }
    }
  }
}

TEST(BatchSizes, RefuseWrongArguments) {
  EXPECT_THROW(batch_sizes_for_worker(4, 0, 1, 0), c10::ValueError);
  EXPECT_THROW(batch_sizes_for_worker(4, 2, 0, 0), c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
