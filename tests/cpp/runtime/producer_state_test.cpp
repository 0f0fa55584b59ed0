// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/producer_state.h"

#include <chrono>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using std::chrono::microseconds;

bool same(IndexRange range, std::int64_t begin, std::int64_t end) {
  return range.begin == begin && range.end == end;
}

TEST(ProducerStateTest, TasksClaimBurstsWithinTheRing) {
  ProducerState progress({0, 100}, {.depth = 5, .burst = 2}, /*max_tasks=*/2);
  ASSERT_TRUE(progress.want_task());
  ASSERT_TRUE(progress.want_task());
  EXPECT_FALSE(progress.want_task());
  EXPECT_TRUE(same(progress.first_burst(), 0, 2));
  EXPECT_TRUE(same(progress.first_burst(), 2, 4));
  EXPECT_TRUE(same(progress.next_burst(), 4, 5));
  EXPECT_TRUE(progress.next_burst().empty());
  progress.end_building();
}

TEST(ProducerStateTest, ConsumerClaimsWhatNoTaskHasBegun) {
  ProducerState progress({0, 100}, {}, 1);
  EXPECT_EQ(progress.claim_help(), 0);
  progress.end_help();
  EXPECT_EQ(progress.position(), 1);
  EXPECT_EQ(progress.claim_help(), 1);
  progress.end_help();
}

TEST(ProducerStateTest, ConsumerHelpsAheadOnlyWithShortItems) {
  ProducerState progress({0, 100}, {}, 1);
  ASSERT_TRUE(progress.want_task());
  ASSERT_TRUE(same(progress.first_burst(), 0, 1));
  EXPECT_EQ(progress.claim_help(), std::nullopt) << "the pace is not known yet";
  progress.set_pace(microseconds(1000));
  EXPECT_EQ(progress.claim_help(), std::nullopt);
  progress.set_pace(microseconds(5));
  for (const std::int64_t ahead : {1, 2, 3}) {
    EXPECT_EQ(progress.claim_help(), ahead);
    progress.end_building();
  }
  EXPECT_EQ(progress.claim_help(), std::nullopt) << "the ring is full";
  EXPECT_EQ(progress.position(), 0);
  EXPECT_TRUE(progress.next_burst().empty());
}

TEST(ProducerStateTest, ConsumerHelpsAheadWithNothingThatMayBlock) {
  ProducerState progress({0, 100}, {.may_block = true}, 1);
  ASSERT_TRUE(progress.want_task());
  ASSERT_TRUE(same(progress.first_burst(), 0, 1));
  progress.set_pace(microseconds(5));
  EXPECT_EQ(progress.claim_help(), std::nullopt);
  progress.end_building();
  progress.advance();
  EXPECT_EQ(progress.claim_help(), 1) << "the item that it needs";
  progress.end_help();
}

TEST(ProducerStateTest, QuickItemsAreLeftToTheConsumer) {
  ProducerState progress({0, 100}, {.inline_threshold = microseconds(100'000)}, 1);
  ASSERT_TRUE(progress.want_task()) << "the pace is not known yet";
  ASSERT_TRUE(same(progress.first_burst(), 0, 1));
  progress.set_pace(microseconds(200'000));
  progress.end_building();
  progress.advance();
  EXPECT_EQ(progress.claim_help(), 1);
  progress.end_help();
  EXPECT_FALSE(progress.want_task()) << "the consumer built an item in less than the threshold";
  progress.set_pace(microseconds(200'000));
  EXPECT_EQ(progress.next_burst().begin, 2) << "a running task continues";
}

TEST(ProducerStateTest, LongItemsAreLeftToTasksThatBeginThemInTime) {
  ProducerState progress({0, 100}, {.time_to_begin = std::chrono::hours(1)}, 1);
  ASSERT_TRUE(progress.want_task());
  {
    std::jthread task([&] { EXPECT_TRUE(same(progress.first_burst(), 0, 1)); });
    EXPECT_EQ(progress.claim_help(), std::nullopt);
  }
  EXPECT_EQ(progress.claim_help(), std::nullopt) << "a task builds it";
  progress.end_building();
}

TEST(ProducerStateTest, LongItemsThatNoTaskBeginsInTimeAreTheConsumers) {
  ProducerState progress({0, 100}, {.time_to_begin = microseconds(1)}, 1);
  ASSERT_TRUE(progress.want_task());
  EXPECT_EQ(progress.claim_help(), 0);
  progress.end_help();

  ProducerState without_tasks({0, 100}, {.time_to_begin = std::chrono::hours(1)}, 0);
  EXPECT_EQ(without_tasks.claim_help(), 0);
  without_tasks.end_help();
}

TEST(ProducerStateTest, StopEndsTheTimeToBegin) {
  ProducerState progress({0, 100}, {.time_to_begin = std::chrono::hours(1)}, 1);
  ASSERT_TRUE(progress.want_task());
  std::jthread other([&] { progress.stop(); });
  EXPECT_EQ(progress.claim_help(), std::nullopt);
}

TEST(ProducerStateTest, NothingIsClaimedAfterStopOrFailure) {
  ProducerState stopped({0, 100}, {}, 1);
  stopped.stop();
  EXPECT_EQ(stopped.claim_help(), std::nullopt);
  EXPECT_FALSE(stopped.want_task());

  ProducerState failed({0, 100}, {}, 1);
  ASSERT_TRUE(failed.want_task());
  failed.fail(/*helped=*/false);
  EXPECT_TRUE(failed.first_burst().empty());
  EXPECT_FALSE(failed.want_task());
}

/// Begins as many tasks as are wanted, and returns how many.
int begin_tasks(ProducerState& progress) {
  int tasks = 0;
  for (; progress.want_task(); ++tasks) progress.first_burst();
  return tasks;
}

TEST(ProducerStateTest, FewTasksAreWantedUntilItIsWidened) {
  ProducerState progress({0, 1'000'000}, {.depth = 100, .narrow_tasks = 2}, 8);
  EXPECT_EQ(begin_tasks(progress), 2);
  progress.widen();
  EXPECT_EQ(begin_tasks(progress), 6);
}

TEST(ProducerStateTest, FewItemsAreBuiltAheadUntilItIsWidened) {
  ProducerState progress({0, 100}, {.depth = 5, .narrow_depth = 2}, 4);
  EXPECT_EQ(begin_tasks(progress), 2);
  EXPECT_EQ(progress.room_for(), 2);
  EXPECT_TRUE(progress.next_burst().empty());
  progress.advance();
  progress.widen();
  EXPECT_EQ(progress.room_for(), 5);
  for (const std::int64_t index : {2, 3, 4, 5}) EXPECT_TRUE(same(progress.next_burst(), index, index + 1));
  EXPECT_TRUE(progress.next_burst().empty());
}

TEST(ProducerStateTest, NothingIsNarrowedThatIsSmallerAlready) {
  ProducerState progress({0, 100}, {.depth = 3, .narrow_depth = 5, .narrow_tasks = 9}, 2);
  EXPECT_EQ(progress.room_for(), 3);
  EXPECT_EQ(begin_tasks(progress), 2);
}

TEST(ProducerStateTest, RequeuedTaskCountsAsSubmitted) {
  ProducerState progress({0, 100}, {.depth = 8}, 1);
  ASSERT_TRUE(progress.want_task());
  ASSERT_TRUE(same(progress.first_burst(), 0, 1));
  ASSERT_TRUE(progress.requeue());
  progress.end_building();
  EXPECT_FALSE(progress.want_task());
  EXPECT_TRUE(same(progress.first_burst(), 1, 2));
  progress.end_building();
}

}  // namespace
}  // namespace torch_distinput
