// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/row_assignment.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "distribute/fake_files.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using op_testing::same;
using Policy = AutoShardPolicy;
using Numbers = std::vector<std::int64_t>;

constexpr Replicas kTwo{1, 0, 2};

RowAssignment deal(const Dataset& dataset, Policy policy, const Replicas& replicas = kTwo,
                   Split split = Split::kTf) {
  return assign_rows(dataset.node(), policy, replicas, split, {});
}

std::string splitter(const Dataset& dataset, Policy policy, const Replicas& replicas = kTwo) {
  return deal(dataset, policy, replicas).splitter->describe();
}

TEST(RowAssignment, PolicyAndBatchSizeChooseTheSplitter) {
  const Dataset batches = Dataset::range(9).batch(3);
  const Dataset unknown = batches.map(same);
  const Dataset files = Dataset(std::make_shared<FakeReader>(Dataset::range(9).node())).batch(3);
  for (const Policy policy : {Policy::kOff, Policy::kFile, Policy::kHint}) {
    EXPECT_EQ(splitter(batches, policy), "v2(sizes=[2, 1])");
    EXPECT_EQ(splitter(unknown, policy), "legacy(num_replicas=2)");
  }
  EXPECT_EQ(splitter(batches, Policy::kData), "legacy(num_replicas=2)");
  EXPECT_EQ(splitter(batches, Policy::kAuto), "legacy(num_replicas=2)");
  EXPECT_EQ(splitter(files, Policy::kAuto), "v2(sizes=[2, 1])");
  EXPECT_EQ(splitter(files, Policy::kData), "legacy(num_replicas=2)");
}

TEST(RowAssignment, BatchesOfChangingSizesAreCutByThemselves) {
  const Dataset batches = Dataset::range(9).batch(std::vector<BatchSizeFrom>{{0, 2}, {2, 4}});
  for (const Policy policy : {Policy::kOff, Policy::kData}) {
    EXPECT_EQ(splitter(batches, policy), "legacy(num_replicas=2)");
    EXPECT_EQ(batch_size_text(deal(batches.prefetch(1), policy)), "[(0, 2), (2, 4)]");
  }
}

TEST(RowAssignment, RefusesWhatNeedsOneBatchSize) {
  constexpr Replicas kRanks{2, 0, 1};
  const Dataset batches = Dataset::range(9).batch(std::vector<BatchSizeFrom>{{0, 2}, {2, 4}});
  const auto refusal = [&](const Dataset& dataset, Policy policy, Split split, Tail tail) {
    return message_of<c10::ValueError>(
        [&] { check_schedule(deal(dataset, policy, kRanks, split), split, tail); });
  };
  EXPECT_EQ(
      refusal(batches, Policy::kOff, Split::kTf, Tail::kZeroRows),
      "distribute_dataset: with batches whose size changes with their number, `split` \"tf\" needs ranks "
      "that share one stream, but the policy is applied as OFF; use auto_shard_policy DATA, or `split` "
      "\"balanced\".");
  EXPECT_EQ(
      refusal(batches, Policy::kOff, Split::kBalanced, Tail::kDrop),
      "distribute_dataset: with batches whose size changes with their number, `tail` \"drop\" needs ranks "
      "that share one stream, but the policy is applied as OFF; use auto_shard_policy DATA, or another "
      "`tail`.");
  EXPECT_EQ(
      refusal(batches.skip(1), Policy::kData, Split::kTf, Tail::kPadded),
      "distribute_dataset: with batches whose size changes with their number, `tail` \"padded\" must know "
      "the full size of each batch, but `skip(count=1)` or an op before it may leave out or move "
      "batches; put such ops before `batch`.");
  for (const Tail tail : {Tail::kZeroRows, Tail::kMerge, Tail::kUntilFirst})
    EXPECT_NO_THROW(check_schedule(deal(batches.skip(1), Policy::kOff, kRanks, Split::kBalanced),
                                   Split::kBalanced, tail));
  for (const Tail tail : {Tail::kPadded, Tail::kRepeat, Tail::kDrop})
    EXPECT_NO_THROW(check_schedule(deal(batches, Policy::kData, kRanks), Split::kTf, tail));
}

TEST(RowAssignment, OneReplicaTakesElementsWhole) {
  EXPECT_EQ(splitter(Dataset::range(3), Policy::kOff, {1, 0, 1}), "whole");
  EXPECT_TRUE(deal(Dataset::range(3), Policy::kOff, {1, 0, 1}).unbatched);
  EXPECT_FALSE(deal(Dataset::range(3).batch(2), Policy::kOff, {1, 0, 1}).unbatched);
}

TEST(RowAssignment, EmptyBatchesUseTheLegacySplitter) {
  EXPECT_EQ(splitter(Dataset::from_tensors(at::zeros({0, 3})), Policy::kOff), "legacy(num_replicas=2)");
}

TEST(RowAssignment, UnderPolicyDataReplicaRGetsPartRTimesWPlusW) {
  const RowAssignment assignment = deal(Dataset::range(16).batch(8), Policy::kData, {2, 1, 2});
  EXPECT_EQ(assignment.width, 4);
  EXPECT_EQ(assignment.local, (Numbers{1, 3}));
}

TEST(RowAssignment, AStreamOfARanksOwnIsDividedByTheWeightsOfItsReplicas) {
  const Dataset batches = Dataset::range(12).batch(4);
  const auto shares = [&](Policy policy, std::int64_t rank) {
    const RowAssignment assignment =
        assign_rows(batches.node(), policy, {2, rank, 2}, Split::kBalanced, {1, 3, 2, 2});
    return assignment.splitter->shares(4, 0, assignment.width);
  };
  EXPECT_EQ(shares(Policy::kOff, 0), (Numbers{1, 3}));
  EXPECT_EQ(shares(Policy::kOff, 1), (Numbers{2, 2}));
  EXPECT_EQ(shares(Policy::kData, 1), (Numbers{1, 1, 1, 1}));
}

TEST(RowAssignment, BalancedIsContiguousOverAllReplicas) {
  const RowAssignment assignment =
      deal(Dataset::range(16).batch(8), Policy::kAuto, {2, 1, 2}, Split::kBalanced);
  EXPECT_EQ(assignment.splitter->describe(), "balanced(num_replicas=4)");
  EXPECT_EQ(assignment.width, 4);
  EXPECT_EQ(assignment.local, (Numbers{2, 3}));
}

TEST(RowAssignment, RanksWithStreamsOfTheirOwnUseTheV2Splitter) {
  const RowAssignment assignment = deal(Dataset::range(14).batch(7), Policy::kOff, {2, 1, 2});
  EXPECT_EQ(assignment.splitter->describe(), "v2(sizes=[2, 1, 2, 2])");
  EXPECT_EQ(assignment.width, 2);
  EXPECT_EQ(assignment.local, (Numbers{0, 1}));
}

TEST(RowAssignment, RefusesElementsThatCannotBeSplit) {
  const std::string message = message_of<c10::ValueError>([] { deal(Dataset::range(6), Policy::kAuto); });
  EXPECT_TRUE(has(message, "distribute_dataset: the element has no rows"));
  EXPECT_THROW(deal(Dataset::range(6).batch(2).enumerate(), Policy::kAuto), c10::ValueError);
}

std::optional<std::int64_t> part_rows(const Dataset& dataset, Policy policy, std::int64_t replicas,
                                      Split split = Split::kTf, bool weighted = false) {
  const RowAssignment assignment = deal(dataset, policy, {1, 0, replicas}, split);
  return dim0(part_spec(dataset.element_spec(), assignment, split, weighted).leaves.at(0));
}

TEST(RowAssignment, PartsHaveAStaticDimOnlyIfEveryPartHasIt) {
  const Dataset fixed = Dataset::range(10).batch(4, {.drop_remainder = true});
  for (const Policy policy : {Policy::kAuto, Policy::kOff}) {
    EXPECT_EQ(part_rows(fixed, policy, 2), 2);
    EXPECT_EQ(part_rows(fixed, policy, 3), kUnknownDim);
    EXPECT_EQ(part_rows(fixed, policy, 1), 4);
    EXPECT_EQ(part_rows(Dataset::range(10).batch(4), policy, 2), kUnknownDim);
  }
  EXPECT_EQ(part_rows(fixed, Policy::kAuto, 2, Split::kBalanced), 2);
  EXPECT_EQ(part_rows(fixed, Policy::kAuto, 2, Split::kBalanced, /*weighted=*/true), kUnknownDim);
}

ElementSpec bare(LeafSpec leaf) { return {Structure::leaf(), {std::move(leaf)}}; }

TEST(RowAssignment, StaticallyShapedChecksAllDimsOfDenseLeavesAndDim0OfOthers) {
  EXPECT_TRUE(statically_shaped(bare(TensorSpec{Dims{4, 3}})));
  EXPECT_FALSE(statically_shaped(bare(TensorSpec{Dims{4, kUnknownDim}})));
  EXPECT_FALSE(statically_shaped(bare(TensorSpec{std::nullopt})));
  EXPECT_TRUE(statically_shaped(bare(RaggedTensorSpec{Dims{4, kUnknownDim}})));
  EXPECT_FALSE(statically_shaped(bare(RaggedTensorSpec{Dims{kUnknownDim, kUnknownDim}})));
  EXPECT_FALSE(statically_shaped(bare(StringSpec{Dims{kUnknownDim}, "utf-8"})));
}

}  // namespace
}  // namespace torch_distinput
