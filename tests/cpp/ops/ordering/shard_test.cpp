// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Dataset non_empty_shard(const Dataset& dataset, std::int64_t num_shards, std::int64_t index) {
  return Dataset(ops::shard(dataset.node(), num_shards, index, /*require_non_empty=*/true));
}

TEST(Shard, KeepsEveryNthElement) {
  EXPECT_EQ(values(Dataset::range(10).shard(3, 0)), Values({0, 3, 6, 9}));
  EXPECT_EQ(values(Dataset::range(10).shard(3, 2)), Values({2, 5, 8}));
  EXPECT_EQ(values(generated(10).shard(3, 2)), Values({2, 5, 8}));
}

TEST(Shard, YieldsEveryElementInOneOfTheShards) {
  Values all;
  for (std::int64_t index = 0; index < 4; ++index) {
    const Values part = values(Dataset::range(10).shard(4, index));
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_EQ(sorted(all), numbers(0, 10));
}

TEST(Shard, KnowsItsCardinality) {
  EXPECT_EQ(Dataset::range(10).shard(3, 0).cardinality(), 4);
  EXPECT_EQ(Dataset::range(10).shard(3, 1).cardinality(), 3);
  EXPECT_EQ(Dataset::range(1).shard(3, 1).cardinality(), 0);
  EXPECT_EQ(Dataset::range(10).repeat().shard(3, 1).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(generated(10).shard(3, 1).cardinality(), kUnknownCardinality);
}

TEST(Shard, RefusesAnIndexOutOfRange) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).shard(2, 2); }),
            "shard: `index` must be in [0, 2), but is 2.");
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).shard(2, -1); }),
            "shard: `index` must be in [0, 2), but is -1.");
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).shard(0, 0); }),
            "shard: `num_shards` must be at least 1, but is 0.");
}

TEST(Shard, ThrowsAtTheFirstNextForTooFewElementsAndNamesTheirNumber) {
  for (const Dataset& dataset : {Dataset::range(5), generated(5)}) {
    DatasetIterator iterator = non_empty_shard(dataset, 10, 0).iterate();
    const std::string message = message_of<InvalidArgumentError>([&] { iterator.next(); });
    EXPECT_TRUE(has(message, "only has 5 file(s), which is not enough for the required 10 shards"));
  }
}

TEST(Shard, EndsForAShardBeyondTooFewElements) {
  EXPECT_EQ(values(non_empty_shard(Dataset::range(5), 10, 7)), Values());
  EXPECT_EQ(values(non_empty_shard(generated(5), 10, 7)), Values());
  EXPECT_EQ(values(non_empty_shard(Dataset::range(0), 10, 0)), Values());
}

TEST(Shard, RequiringElementsChangesNothingIfThereAreEnough) {
  EXPECT_EQ(values(non_empty_shard(Dataset::range(10), 3, 1)), Values({1, 4, 7}));
  EXPECT_EQ(values(non_empty_shard(generated(10), 3, 1)), Values({1, 4, 7}));
  EXPECT_EQ(values(non_empty_shard(generated(3), 3, 1)), Values({1}));
  expect_laws(non_empty_shard(generated(10), 3, 1));
}

TEST(Shard, WithAHintDividesCardinalitiesByTheMarkerAsRecorded) {
  EXPECT_EQ(Dataset::range(10).shard(kShardHint, 0).batch(4).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Dataset::range(12).shard(kShardHint, 0).batch(4).cardinality(), -3);
}

TEST(Shard, WithAHintCannotBeRead) {
  const Dataset hint = Dataset::range(10).shard(kShardHint, 0);
  EXPECT_TRUE(hint.node()->traits().sharding.hint);
  EXPECT_TRUE(has(message_of<FailedPreconditionError>([&] { hint.iterate().next(); }), "policy HINT"));
}

TEST(Shard, ObeysTheLaws) {
  expect_laws(Dataset::range(10).shard(3, 1));
  expect_laws(generated(10).shard(3, 1));
  expect_laws(Dataset::range(22).batch(3).shard(3, 1));
}

}  // namespace
}  // namespace torch_distinput
