// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"

namespace torch_distinput::distribute_testing {
namespace {

using Policy = AutoShardPolicy;

TEST(DistributedDataset, SplitsAsRecorded) {
  EXPECT_EQ(steps(Dataset::range(6).batch(4), 2), (Steps{{{0, 1}, {2, 3}}, {{4}, {5}}}));
  EXPECT_EQ(steps(Dataset::range(8).batch(4), 3), (Steps{{{0, 1}, {2, 3}, {}}, {{4, 5}, {6, 7}, {}}}));
  EXPECT_EQ(steps(Dataset::range(6).batch(4), 2, Policy::kOff), (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {}}}));
  EXPECT_EQ(steps(Dataset::range(11).batch(4), 3, Policy::kOff),
            (Steps{{{0, 1}, {2}, {3}}, {{4, 5}, {6}, {7}}, {{8, 9}, {10}, {}}}));
  EXPECT_EQ(steps(Dataset::range(5).batch(4).repeat(2), 2, Policy::kOff),
            (Steps{{{0, 1}, {2, 3}}, {{4, 0}, {1, 2}}, {{3, 4}, {}}}));
}

TEST(DistributedDataset, BalancedKeepsOrderAndSharesEvenly) {
  EXPECT_EQ(steps(Dataset::range(11).batch(8), 3, Policy::kOff, {.split = Split::kBalanced}),
            (Steps{{{0, 1, 2}, {3, 4, 5}, {6, 7}}, {{8}, {9}, {10}}}));
  EXPECT_EQ(steps(Dataset::range(8).batch(8), 2, Policy::kAuto,
                  {.split = Split::kBalanced, .weights = std::vector<double>{1, 3}}),
            (Steps{{{0, 1}, {2, 3, 4, 5, 6, 7}}}));
}

TEST(DistributedDataset, TailRulesOnTheLastShortBatch) {
  const Dataset dataset = Dataset::range(9).batch(6);
  const auto tail = [&](Tail rule) {
    return steps(dataset, 4, Policy::kAuto, {.split = Split::kBalanced, .tail = rule});
  };
  const std::vector<Rows> first{{0, 1}, {2, 3}, {4}, {5}};
  EXPECT_EQ(tail(Tail::kZeroRows), (Steps{first, {{6}, {7}, {8}, {}}}));
  EXPECT_EQ(tail(Tail::kPadded), (Steps{first, {{6, 6}, {7, 7}, {8}, {8}}}));
  EXPECT_EQ(tail(Tail::kRepeat), (Steps{first, {{6, 7}, {8, 0}, {1}, {2}}}));
  EXPECT_EQ(tail(Tail::kDrop), (Steps{first}));
  EXPECT_EQ(tail(Tail::kUntilFirst), (Steps{first}));
  EXPECT_EQ(tail(Tail::kMerge), (Steps{{{0, 1, 2}, {3, 4}, {5, 6}, {7, 8}}}));
}

TEST(DistributedDataset, OneReplicaTakesElementsWhole) {
  const auto distributed = OneDeviceStrategy("cpu").distribute_dataset(Dataset::range(3));
  EXPECT_EQ(steps(distributed), (Steps{{{0}}, {{1}}, {{2}}}));
  EXPECT_EQ(distributed.num_steps(), 3);
  EXPECT_TRUE(distributed.element_spec() == Dataset::range(3).element_spec());
}

TEST(DistributedDataset, BatchesOfAFunctionAreCountedAsSteps) {
  const Dataset dataset = Dataset::range(10).batch(4).map(same);
  EXPECT_EQ(replicas(3).distribute_dataset(dataset).num_steps(), 3);
  EXPECT_EQ(steps(replicas(3).distribute_dataset(dataset)).size(), 3U);
  EXPECT_EQ(replicas(3).distribute_dataset(dataset, {.tail = Tail::kDrop}).num_steps(), std::nullopt);
}

TEST(DistributedDataset, LeavesOfDifferentLengthAreCutSeparately) {
  const Dataset dataset = Dataset::zip({Dataset::range(4).batch(4), Dataset::range(6).batch(6)});
  DistributedIterator iterator = replicas(4).distribute_dataset(dataset).iterate();
  const auto step = iterator.next();
  ASSERT_TRUE(step);
  const std::vector<Rows> longer{{0, 1}, {2, 3}, {4, 5}, {}};
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(items((*step)[g][0]), Rows{static_cast<std::int64_t>(g)});
    EXPECT_EQ(items((*step)[g][1]), longer[g]);
  }
  EXPECT_FALSE(iterator.next());
}

TEST(DistributedDataset, OtherSplitsRefuseLeavesOfDifferentLength) {
  const Dataset dataset = Dataset::zip({Dataset::range(4).batch(4), Dataset::range(6).batch(6)});
  DistributedIterator iterator =
      replicas(2).distribute_dataset(dataset, {.split = Split::kBalanced}).iterate();
  const std::string message = message_of<c10::ValueError>([&] { iterator.next(); });
  EXPECT_TRUE(
      has(message,
          "element 0: all leaves must have the same number of rows, but leaf [0] has 4 and leaf [1] has 6"));
}

TEST(DistributedDataset, PartsWithoutRowsHaveTypeAndDims) {
  const Dataset dataset = Dataset::from_tensor_slices(
                              Element::dict({{"x", at::zeros({5, 2, 3}, at::kHalf)}, {"y", at::arange(5)}}))
                              .batch(4);
  for (const Policy policy : {Policy::kAuto, Policy::kOff}) {
    const auto distributed = replicas(3).distribute_dataset(with_policy(dataset, policy));
    DistributedIterator iterator = distributed.iterate();
    iterator.next();
    const auto last = iterator.next();
    ASSERT_TRUE(last);
    EXPECT_EQ((*last)[2]["x"].tensor().sizes(), (at::IntArrayRef{0, 2, 3}));
    EXPECT_EQ((*last)[2]["x"].tensor().scalar_type(), at::kHalf);
    EXPECT_EQ((*last)[2]["y"].tensor().scalar_type(), at::kLong);
  }
}

TEST(DistributedDataset, PartialBatchHandlingFollowsShapesAndCardinality) {
  const Dataset fixed = Dataset::range(8).batch(4, {.drop_remainder = true});
  const auto handles = [](const Dataset& dataset) {
    return replicas(2).distribute_dataset(dataset).partial_batch_handling();
  };
  EXPECT_TRUE(handles(Dataset::range(8).batch(4)));
  EXPECT_FALSE(handles(fixed));
  EXPECT_FALSE(handles(Dataset::range(8).repeat().batch(4)));
  EXPECT_FALSE(
      OneDeviceStrategy("cpu").distribute_dataset(Dataset::range(8).batch(4)).partial_batch_handling());
}

TEST(DistributedDataset, CardinalityIsThatOfTheDatasetAsGiven) {
  const auto cardinality = [](const Dataset& dataset) {
    return replicas(2).distribute_dataset(dataset).cardinality();
  };
  EXPECT_EQ(cardinality(Dataset::range(9).batch(2)), 5);
  EXPECT_EQ(cardinality(Dataset::range(9).repeat().batch(2)), kInfiniteCardinality);
  EXPECT_EQ(cardinality(Dataset::range(9).filter([](const Element&) { return true; }).batch(2)),
            kUnknownCardinality);
}

TEST(DistributedDataset, EpochsAdvanceWhenSomethingWasHandedOut) {
  const Dataset dataset = Dataset::range(20).shuffle().batch(20).with_options({.seed = 3});
  const auto distributed = replicas(2).distribute_dataset(dataset);
  const auto epoch = [&](std::int64_t number) { return steps(distributed, {.epoch = number}); };
  ASSERT_NE(epoch(0), epoch(1));
  distributed.iterate();
  DistributedIterator first = distributed.iterate();
  EXPECT_EQ(steps(first), epoch(0));
  DistributedIterator second = distributed.iterate();
  EXPECT_EQ(steps(second), epoch(1));
  distributed.set_epoch(0);
  DistributedIterator pinned = distributed.iterate();
  EXPECT_EQ(steps(pinned), epoch(0));
  EXPECT_THROW(distributed.set_epoch(-1), c10::ValueError);
}

TEST(DistributedDataset, RangeForYieldsEveryStep) {
  Steps seen;
  for (const PerReplica& step : replicas(2).distribute_dataset(Dataset::range(6).batch(4)))
    seen.push_back(rows(step));
  EXPECT_EQ(seen, (Steps{{{0, 1}, {2, 3}}, {{4}, {5}}}));
}

TEST(DistributedDataset, ExplainSaysWhatWasDecidedAndWhy) {
  const std::string text = replicas(3).distribute_dataset(Dataset::range(11).batch(4)).explain();
  for (const char* line :
       {"replicas: 3, all in this process\n", "policy: AUTO, applied as DATA: one process reads everything",
        "batch size: 4", "split: legacy(num_replicas=3): policy DATA", "tail: zero_rows",
        "building of steps: from a plan, ", "rows of the first step: 2, 2, 0",
        "rows of the last step: ", "cardinality: 3, steps: 3"}) {
    EXPECT_TRUE(has(text, line));
  }
}

TEST(DistributedDataset, WithoutReadAheadUsersFunctionsRunInTheCallersThread) {
  int here = 0;
  const auto caller = std::this_thread::get_id();
  const auto note = op_testing::runs_user_code([&here, caller](Element element) {
    if (std::this_thread::get_id() == caller) ++here;
    return element;
  });
  const Dataset dataset =
      Dataset::range(64).map(note, {.element_spec = Dataset::range(1).element_spec()}).batch(8);
  EXPECT_EQ(steps(dataset, 2, Policy::kAuto, {.per_replica_buffer_size = 0}).size(), 8U);
  EXPECT_EQ(here, 64);
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
