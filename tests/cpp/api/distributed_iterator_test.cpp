// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <future>
#include <stdexcept>

#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput::distribute_testing {
namespace {

DistributedIterator iterate(const Dataset& dataset, InputOptions options = {}) {
  return replicas(2).distribute_dataset(dataset, std::move(options)).iterate();
}

TEST(DistributedIterator, StaysAtTheEnd) {
  DistributedIterator iterator = iterate(Dataset::range(4).batch(2));
  EXPECT_EQ(steps(iterator).size(), 2U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(iterator.next());
    EXPECT_THROW(iterator.get_next(), OutOfRangeError);
    const Optional none = iterator.get_next_as_optional();
    EXPECT_FALSE(none.has_value());
    EXPECT_THROW(none.get_value(), InvalidArgumentError);
  }
}

TEST(DistributedIterator, EndlessDataThatEndsIsAnErrorForTheOptionalToo) {
  const Dataset marked =
      with_policy(Dataset::range(10).shard(kShardHint, 0).batch(4), AutoShardPolicy::kHint);
  DistributedIterator iterator = iterate(marked);
  EXPECT_EQ(steps(iterator), (Steps{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}));
  EXPECT_THROW(iterator.get_next_as_optional(), OutOfRangeError);
}

TEST(DistributedIterator, StepInfoIsThatOfTheStepLastHandedOut) {
  DistributedIterator iterator = iterate(Dataset::range(5).batch(4));
  EXPECT_THROW(iterator.step_info(), FailedPreconditionError);
  iterator.next();
  EXPECT_EQ(iterator.step_info().valid, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(iterator.step_info().loss_scale, (std::vector<double>{1, 1}));
  iterator.next();
  EXPECT_EQ(iterator.step_info().valid, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(iterator.step_info().loss_scale, (std::vector<double>{2, 0}));
  EXPECT_EQ(iterator.step_info().row_start, 4);
  EXPECT_TRUE(iterator.step_info().is_last);
}

TEST(DistributedIterator, StatsCountWhatWasHandedOut) {
  DistributedIterator iterator = iterate(Dataset::range(7).batch(4));
  steps(iterator);
  const Stats stats = iterator.stats();
  EXPECT_EQ(stats.batches, 2);
  EXPECT_EQ(stats.rows, 7);
  EXPECT_EQ(stats.bytes, 56);
}

TEST(DistributedIterator, CloseEndsUseButNotThePosition) {
  DistributedIterator iterator = iterate(Dataset::range(8).batch(4));
  iterator.next();
  const State saved = iterator.save();
  iterator.close();
  iterator.close();
  EXPECT_THROW(iterator.next(), FailedPreconditionError);
  EXPECT_EQ(iterator.save(), saved);
}

/// Follows `steps` steps of `leader`, and its end if there are fewer.
void follow(DistributedIterator& follower, DistributedIterator& leader, int steps) {
  for (int step = 0; step < steps; ++step) {
    const bool more = leader.next().has_value();
    follower.follow(more ? std::optional(leader.step_info()) : std::nullopt, leader.save());
    EXPECT_EQ(follower.save(), leader.save());
    if (!more) return;
    EXPECT_EQ(follower.step_info().row_start, leader.step_info().row_start);
  }
}

TEST(DistributedIterator, OneThatFollowsGoesOnWhereTheOtherIs) {
  for (const bool plan : {true, false}) {
    const Dataset numbers = Dataset::range(11);
    const Dataset batches = (plan ? numbers : numbers.filter([](const Element&) { return true; }))
                                .batch(4)
                                .with_options({.seed = 5});
    for (int followed = 0; followed <= 4; ++followed) {
      DistributedIterator leader = iterate(batches);
      DistributedIterator follower = iterate(batches);
      follow(follower, leader, followed);
      EXPECT_EQ(steps(follower), steps(leader)) << followed;
    }
  }
}

TEST(DistributedIterator, IteratorsAreIndependent) {
  const auto distributed = replicas(2).distribute_dataset(Dataset::range(6).batch(2));
  DistributedIterator a = distributed.iterate();
  DistributedIterator b = distributed.iterate();
  EXPECT_EQ(rows(*a.next()), (std::vector<Rows>{{0}, {1}}));
  EXPECT_EQ(rows(*a.next()), (std::vector<Rows>{{2}, {3}}));
  EXPECT_EQ(rows(*b.next()), (std::vector<Rows>{{0}, {1}}));
}

/// Fails at row `bad`, each time that it is asked for this row.
Dataset failing(std::int64_t bad, bool streams) {
  Dataset rows = Dataset::range(12);
  if (streams) rows = rows.filter([](const Element&) { return true; });
  return rows.map(op_testing::fails_at(bad)).batch(4);
}

TEST(DistributedIterator, ErrorsStayAndThePositionIsBeforeTheFailingStep) {
  for (const bool streams : {false, true}) {
    for (const std::int64_t buffer : {0, 1}) {
      DistributedIterator iterator = iterate(failing(9, streams), {.per_replica_buffer_size = buffer});
      EXPECT_EQ(rows(*iterator.next()), (std::vector<Rows>{{0, 1}, {2, 3}}));
      const auto second = iterator.next();
      ASSERT_TRUE(second);
      EXPECT_FALSE(second->info().is_last);
      const State before = iterator.save();
      for (int i = 0; i < 3; ++i) EXPECT_ANY_THROW(iterator.next());
      EXPECT_ANY_THROW(iterator.get_next_as_optional());
      EXPECT_EQ(iterator.save(), before);
      iterator.load(before);
      EXPECT_ANY_THROW(iterator.next());
    }
  }
}

TEST(DistributedIterator, AnErrorWhileOpeningIsRaisedByNext) {
  DistributedIterator iterator = iterate(Dataset::range(8).shard(kShardHint, 0).batch(4));
  EXPECT_THROW(iterator.next(), FailedPreconditionError);
  EXPECT_THROW(iterator.next(), FailedPreconditionError);
}

std::string refusal(const State& state) {
  DistributedIterator iterator = iterate(Dataset::range(8).batch(4));
  return message_of<c10::ValueError>([&] { iterator.load(state); });
}

TEST(DistributedIterator, LoadRefusesStatesOfOtherDatasets) {
  DistributedIterator iterator = iterate(Dataset::range(8).batch(4));
  iterator.next();
  State state = iterator.save();
  EXPECT_EQ(state.at("version"), State(1));
  EXPECT_EQ(state.at("kind"), State("torch_distinput.DistributedIterator"));
  EXPECT_TRUE(has(refusal(State(3)), "not a saved position"));
  EXPECT_TRUE(has(refusal(Dataset::range(8).batch(4).iterate().save()), "torch_distinput.DatasetIterator"));
  const std::string other = refusal(iterate(Dataset::range(9).batch(4)).save());
  EXPECT_TRUE(has(other, "stop=9"));
  EXPECT_TRUE(has(other, "stop=8"));
  State newer = state;
  newer.set("version", 2);
  EXPECT_TRUE(has(refusal(newer), "version 2"));
  State damaged = state;
  damaged.set("row", -1);
  EXPECT_TRUE(has(refusal(damaged), "`row`"));
}

TEST(DistributedIterator, AfterALoadTheEpochsGoOnFromThere) {
  const Dataset dataset = Dataset::range(12).shuffle().batch(4);
  const auto before = replicas(2).distribute_dataset(dataset);
  before.set_epoch(4);
  DistributedIterator first = before.iterate();
  first.next();
  const State saved = first.save();
  const Steps rest = steps(first);
  const Steps next_epoch = steps(before, {});

  const auto after = replicas(2).distribute_dataset(dataset);
  DistributedIterator resumed = after.iterate();
  resumed.load(saved);
  EXPECT_EQ(steps(resumed), rest);
  EXPECT_EQ(resumed.step_info().epoch, 4);
  EXPECT_EQ(steps(after, {}), next_epoch);
}

TEST(DistributedIterator, RepeatsTheFirstRowsOfTheEpochAlsoWithBatchesOfAnotherSize) {
  const auto distributed = [](std::int64_t batch) {
    return replicas(2).distribute_dataset(op_testing::generated(7).batch(batch),
                                          {.split = Split::kBalanced, .tail = Tail::kRepeat});
  };
  DistributedIterator first = distributed(2).iterate();
  for (int step = 0; step < 3; ++step) first.next();
  const State saved = first.save();
  const auto rest = [&](std::int64_t batch) {
    DistributedIterator second = distributed(batch).iterate();
    second.load(saved);
    return steps(second);
  };
  EXPECT_EQ(rest(2), (Steps{{{6}, {0}}}));
  EXPECT_EQ(rest(4), (Steps{{{6, 0}, {1, 2}}}));
  EXPECT_EQ(rest(8), (Steps{{{6, 0, 1, 2}, {3, 4, 5, 6}}}));
  EXPECT_EQ(rest(9), (Steps{{{6, 0, 1, 2, 3}, {4, 5, 6, 0}}}));
}

/// A source of 0, 1, ... without end, which counts its elements and can wait before one.
struct Tap {
  std::atomic<std::int64_t> pulled = 0;
  std::int64_t waits_at = -1;
  std::shared_future<void> gate;

  Dataset dataset() {
    const auto open = [this] {
      return [this, next = std::int64_t{0}]() mutable -> std::optional<Element> {
        if (next == waits_at && gate.valid()) gate.wait();
        if (const auto& check = interrupt_check()) check();
        ++pulled;
        return op_testing::scalar(next++);
      };
    };
    return op_testing::scalars_from(open);
  }
};

TEST(DistributedIterator, ReadsAheadNoFurtherThanAsked) {
  for (const std::int64_t buffer : {0, 1, 2}) {
    Tap tap;
    const Dataset batches = tap.dataset().batch(8);
    DistributedIterator iterator = iterate(batches, {.per_replica_buffer_size = buffer});
    EXPECT_EQ(tap.pulled, 0);
    for (std::int64_t step = 1; step <= 10; ++step) {
      iterator.next();
      const std::int64_t ahead = buffer == 0 ? 1 : 1 + 2 * buffer;
      EXPECT_LE(tap.pulled, 8 * (step + ahead));
    }
  }
}

TEST(DistributedIterator, OneThatFollowsReadsNothing) {
  Tap tap;
  const Dataset batches = tap.dataset().take(8).batch(4);
  DistributedIterator leader = iterate(Dataset::range(8).batch(4));
  DistributedIterator follower = iterate(batches, {.per_replica_buffer_size = 0});
  const State start = follower.save();
  leader.next();
  follower.follow(leader.step_info(), start);
  EXPECT_EQ(tap.pulled, 0);
  EXPECT_EQ(follower.stats().rows, 4);
  follower.follow(std::nullopt, start);
  EXPECT_FALSE(follower.next());
}

TEST(DistributedIterator, AnInterruptLosesNothingInTheCallersThread) {
  Tap tap;
  DistributedIterator iterator = iterate(tap.dataset().batch(4), {.per_replica_buffer_size = 0});
  iterator.next();
  {
    const InterruptScope scope([] { throw std::runtime_error("interrupted"); });
    EXPECT_THROW(iterator.next(), std::runtime_error);
  }
  EXPECT_EQ(rows(*iterator.next()), (std::vector<Rows>{{4, 5}, {6, 7}}));
}

TEST(DistributedIterator, AnInterruptEndsAWaitForTheReadingThread) {
  std::promise<void> open_gate;
  Tap tap;
  tap.waits_at = 4;
  tap.gate = open_gate.get_future().share();
  DistributedIterator iterator = iterate(tap.dataset().batch(4));
  {
    const InterruptScope scope([] { throw std::runtime_error("interrupted"); });
    EXPECT_THROW(iterator.next(), std::runtime_error);
  }
  open_gate.set_value();
  EXPECT_EQ(rows(*iterator.next()), (std::vector<Rows>{{0, 1}, {2, 3}}));
  EXPECT_EQ(rows(*iterator.next()), (std::vector<Rows>{{4, 5}, {6, 7}}));
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
