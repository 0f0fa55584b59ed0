// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/steps_ahead.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "distribute/coordination/agreement.h"
#include "distribute/multi_worker_testing.h"

namespace torch_distinput::distribute_testing {
namespace {

constexpr std::int64_t kMax = Agreement::kMaxAhead;

Distribution distribution_of(const Dataset& dataset, std::int64_t buffer = 1) {
  Distribution distribution;
  distribution.assignment.node = dataset.node();
  distribution.options = dataset.options();
  distribution.input.per_replica_buffer_size = buffer;
  return distribution;
}

StepsAhead ahead_of(const Dataset& dataset, std::int64_t buffer = 1) {
  return StepsAhead(distribution_of(dataset, buffer));
}

const Dataset kNative = Dataset::range(100).filter([](const Element&) { return true; }).batch(2);
const Dataset kUserCode =
    Dataset::range(100).map(op_testing::runs_user_code([](Element row) { return row; })).batch(2);

TEST(StepsAhead, NativeStreamsFollowTheirBytes) {
  const StepsAhead ahead = ahead_of(kNative.with_options({.prefetch_bytes = 1000}));
  EXPECT_EQ(ahead.at_first(), 3);
  EXPECT_EQ(ahead.beside(1, 8), kMax);
  EXPECT_EQ(ahead.beside(1, 100), 10);
  EXPECT_EQ(ahead.beside(4, 800), 5);
  EXPECT_EQ(ahead.beside(1, 0), kMax);
  EXPECT_EQ(ahead.beside(64, std::int64_t{1} << 62), 3);
}

TEST(StepsAhead, ReadAheadExceedsTheBudgetByAtMostOneStep) {
  const StepsAhead ahead = ahead_of(kNative.with_options({.prefetch_bytes = 1000}));
  std::mt19937 random(3);
  for (int trial = 0; trial < 1000; ++trial) {
    std::int64_t steps = 0;
    std::int64_t bytes = 0;
    std::int64_t last = 0;
    do {
      last = static_cast<std::int64_t>(random() % 300);
      bytes += last;
      ++steps;
    } while (steps < ahead.beside(steps, bytes));
    ASSERT_LE(steps, kMax);
    ASSERT_TRUE(steps <= 3 || bytes - last < 1000) << steps << " steps of " << bytes << " bytes";
  }
}

TEST(StepsAhead, StreamsWithUsersCodeFollowTheOptionsOnly) {
  EXPECT_EQ(ahead_of(kUserCode).beside(1, 8), 3);
  EXPECT_EQ(ahead_of(kUserCode, 4).beside(1, 8), 9);
  EXPECT_EQ(ahead_of(kUserCode.with_options({.prefetch = 16})).beside(1, 8), 16);
  EXPECT_EQ(ahead_of(kNative.with_options({.prefetch = 2})).beside(1, 8), 2);
  EXPECT_EQ(ahead_of(kNative.with_options({.prefetch = 1000})).at_first(), kMax);
  for (const Dataset& dataset : {kUserCode, kNative}) EXPECT_EQ(ahead_of(dataset, 0).beside(1, 8), 0);
}

TEST(StepsAhead, ChecksEveryPipelineAndEveryInput) {
  EXPECT_EQ(ahead_of(kUserCode.unbatch().concatenate(kNative.unbatch()).batch(2)).beside(1, 8), 3);
  Distribution both = distribution_of(kNative);
  both.pipelines = {std::make_shared<Distribution>(distribution_of(kNative)),
                    std::make_shared<Distribution>(distribution_of(kUserCode))};
  EXPECT_EQ(StepsAhead(both).beside(1, 8), 3);
}

TEST(StepsAhead, DescribesTheNumberTheReasonAndTheOption) {
  EXPECT_EQ(ahead_of(kUserCode).describe(),
            "a round for about 2 steps, 3 ahead, because map(user_function) would run early; `prefetch=64` "
            "allows that and makes it one for 32");
  EXPECT_EQ(ahead_of(kUserCode, 0).describe(),
            "a round for each step, none ahead, because `per_replica_buffer_size` is 0; `prefetch=64` makes "
            "it one for 32");
  EXPECT_EQ(ahead_of(kNative).describe(),
            "a round for about 32 steps, 64 ahead, fewer if they take more than 67108864 bytes "
            "(`prefetch_bytes`)");
  EXPECT_EQ(ahead_of(kNative.with_options({.prefetch = 8})).describe(),
            "a round for about 4 steps, 8 ahead, set by `prefetch`");
}

TEST(StepsAhead, ExplainContainsItIfRanksAgree) {
  auto ranks = ranks_of(2);
  const auto tells = [](const DistributedDataset& dataset) {
    return dataset.explain().find("\nagreement: a round for about 32 steps, 64 ahead") != std::string::npos;
  };
  const auto own = [](const InputContext&) { return kNative; };
  EXPECT_TRUE(tells(ranks[0].distribute_datasets_from_function(own)));
  EXPECT_TRUE(tells(ranks[0].distribute_dataset(kNative.with_options({.skip = Skip{}}))));
  EXPECT_FALSE(tells(ranks[0].distribute_dataset(kNative)));
  EXPECT_FALSE(tells(replicas(2).distribute_datasets_from_function(own)));
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
