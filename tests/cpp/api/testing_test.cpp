// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/testing.h"

#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using op_testing::elements;
using Parts = std::vector<op_testing::Values>;
using Policy = AutoShardPolicy;

Parts stream(const Dataset& dataset, std::int64_t workers, std::int64_t replicas, std::int64_t worker,
             Policy policy) {
  return elements(testing::worker_stream(dataset, workers, replicas, worker, policy));
}

TEST(WorkerStream, UnderDataKeepsPartsKModW) {
  const Dataset dataset = Dataset::range(15).batch(4);
  EXPECT_EQ(stream(dataset, 2, 2, 0, Policy::kAuto), (Parts{{0}, {2}, {4}, {6}, {8}, {10}, {12}, {14}}));
  EXPECT_EQ(stream(dataset, 2, 2, 1, Policy::kAuto), (Parts{{1}, {3}, {5}, {7}, {9}, {11}, {13}, {}}));
}

TEST(WorkerStream, UnderOffTakesItsSizesInTurn) {
  const Dataset dataset = Dataset::range(14).batch(7);
  EXPECT_EQ(stream(dataset, 2, 2, 0, Policy::kOff),
            (Parts{{0, 1}, {2, 3}, {4, 5}, {6}, {7, 8}, {9, 10}, {11, 12}, {13}}));
  EXPECT_EQ(stream(dataset, 2, 2, 1, Policy::kOff),
            (Parts{{0, 1}, {2}, {3, 4}, {5, 6}, {7, 8}, {9}, {10, 11}, {12, 13}}));
}

TEST(WorkerStream, EndsAfterAShortPartAndNotBeforeZeroSizes) {
  EXPECT_EQ(stream(Dataset::range(3).batch(1), 2, 1, 1, Policy::kOff),
            (Parts{{}, {0}, {}, {1}, {}, {2}, {}}));
  EXPECT_EQ(stream(Dataset::range(5).batch(4), 1, 2, 0, Policy::kOff), (Parts{{0, 1}, {2, 3}, {4}}));
}

TEST(LegacyRebatch, CutsEveryBatchSeparately) {
  const Dataset parts = testing::legacy_rebatch(Dataset::range(10).batch(4), 3);
  EXPECT_EQ(elements(parts), (Parts{{0, 1}, {2, 3}, {}, {4, 5}, {6, 7}, {}, {8}, {9}, {}}));
  EXPECT_EQ(parts.cardinality(), 9);
  for (const std::int64_t none : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1} << 62}) {
    EXPECT_THROW(testing::legacy_rebatch(Dataset::range(4).batch(2), none), InvalidArgumentError);
    EXPECT_THROW(testing::worker_stream(Dataset::range(4).batch(2), 2, none, 0, AutoShardPolicy::kAuto),
                 InvalidArgumentError);
    EXPECT_THROW(testing::batch_sizes_for_worker(4, 4, none, 0), InvalidArgumentError);
  }
  EXPECT_THROW(testing::legacy_rebatch(Dataset::range(4), 2), c10::ValueError);
}

TEST(PartStreams, CanBeResumedAnywhere) {
  const Dataset batches = Dataset::range(23).batch(5);
  testing::assert_resumable(testing::legacy_rebatch(batches, 3));
  for (const Policy policy : {Policy::kAuto, Policy::kOff}) {
    for (std::int64_t worker = 0; worker < 2; ++worker) {
      testing::assert_resumable(testing::worker_stream(batches, 2, 2, worker, policy));
    }
  }
}

TEST(AutoShardedDataset, AssignsElements) {
  const auto sharded = [](Policy policy) {
    return elements(testing::auto_shard(Dataset::range(7).batch(2), 2, 1, policy));
  };
  EXPECT_EQ(sharded(Policy::kAuto), (Parts{{2, 3}, {6}}));
  EXPECT_EQ(sharded(Policy::kData), (Parts{{2, 3}, {6}}));
  EXPECT_EQ(sharded(Policy::kOff).size(), 4U);
}

}  // namespace
}  // namespace torch_distinput
