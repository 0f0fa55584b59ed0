// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/producer_board.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace torch_distinput {
namespace {

using std::chrono::microseconds;

bool same(IndexRange range, std::int64_t begin, std::int64_t end) {
  return range.begin == begin && range.end == end;
}

TEST(ProducerBoardTest, TasksClaimBurstsWithinTheRing) {
  ProducerBoard board({0, 100}, /*depth=*/5, /*burst=*/2, /*max_tasks=*/2);
  ASSERT_TRUE(board.want_task());
  ASSERT_TRUE(board.want_task());
  EXPECT_FALSE(board.want_task());
  EXPECT_TRUE(same(board.first_burst(), 0, 2));
  EXPECT_TRUE(same(board.first_burst(), 2, 4));
  EXPECT_TRUE(same(board.next_burst(), 4, 5));
  EXPECT_TRUE(board.next_burst().empty());
  board.end_building();
}

TEST(ProducerBoardTest, ConsumerClaimsWhatNobodyHasBegun) {
  ProducerBoard board({0, 100}, 4, 1, 1);
  EXPECT_EQ(board.claim_help(), 0);
  board.end_help();
  EXPECT_EQ(board.position(), 1);
  EXPECT_EQ(board.claim_help(), 1);
  board.end_help();
}

TEST(ProducerBoardTest, ConsumerHelpsAheadOnlyWithShortItems) {
  ProducerBoard board({0, 100}, 4, 1, 1);
  ASSERT_TRUE(board.want_task());
  ASSERT_TRUE(same(board.first_burst(), 0, 1));
  EXPECT_EQ(board.claim_help(), std::nullopt) << "the pace is not known yet";
  board.set_pace(microseconds(1000));
  EXPECT_EQ(board.claim_help(), std::nullopt);
  board.set_pace(microseconds(5));
  for (const std::int64_t ahead : {1, 2, 3}) {
    EXPECT_EQ(board.claim_help(), ahead);
    board.end_building();
  }
  EXPECT_EQ(board.claim_help(), std::nullopt) << "the ring is full";
  EXPECT_EQ(board.position(), 0);
  EXPECT_TRUE(board.next_burst().empty());
}

TEST(ProducerBoardTest, QuickItemsAreLeftToTheConsumer) {
  ProducerBoard board({0, 100}, 4, 1, 1, /*quick=*/microseconds(100'000));
  ASSERT_TRUE(board.want_task()) << "the pace is not known yet";
  ASSERT_TRUE(same(board.first_burst(), 0, 1));
  board.set_pace(microseconds(200'000));
  board.end_building();
  board.advance();
  EXPECT_EQ(board.claim_help(), 1);
  board.end_help();
  EXPECT_FALSE(board.want_task()) << "the consumer made one in no time";
  board.set_pace(microseconds(200'000));
  EXPECT_EQ(board.next_burst().begin, 2) << "a task that runs goes on";
}

TEST(ProducerBoardTest, NothingIsClaimedAfterStopOrFailure) {
  ProducerBoard stopped({0, 100}, 4, 1, 1);
  stopped.stop();
  EXPECT_EQ(stopped.claim_help(), std::nullopt);
  EXPECT_FALSE(stopped.want_task());

  ProducerBoard failed({0, 100}, 4, 1, 1);
  ASSERT_TRUE(failed.want_task());
  failed.fail(/*helped=*/false);
  EXPECT_TRUE(failed.first_burst().empty());
  EXPECT_FALSE(failed.want_task());
}

TEST(ProducerBoardTest, RequeuedTaskCountsAsSubmitted) {
  ProducerBoard board({0, 100}, 8, 1, 1);
  ASSERT_TRUE(board.want_task());
  ASSERT_TRUE(same(board.first_burst(), 0, 1));
  ASSERT_TRUE(board.requeue());
  board.end_building();
  EXPECT_FALSE(board.want_task());
  EXPECT_TRUE(same(board.first_burst(), 1, 2));
  board.end_building();
}

}  // namespace
}  // namespace torch_distinput
