// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/bounded_queue.h"

#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/forked_child.h"

namespace torch_distinput {
namespace {

TEST(BoundedQueueTest, FirstInFirstOut) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(i));
  EXPECT_EQ(queue.size(), 3u);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(queue.pop(), i);
  EXPECT_EQ(queue.size(), 0u);
  EXPECT_EQ(queue.waits(), 0);
}

TEST(BoundedQueueTest, CloseDrainsThenEnds) {
  BoundedQueue<int> queue(3);
  queue.push(1);
  queue.close();
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, FailDrainsThenThrowsEveryTime) {
  BoundedQueue<int> queue(3);
  queue.push(1);
  queue.fail(std::make_exception_ptr(std::domain_error("lost")));
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_THROW(queue.pop(), std::domain_error);
  EXPECT_THROW(queue.pop(), std::domain_error);
}

TEST(BoundedQueueTest, FirstEndCounts) {
  BoundedQueue<int> queue(1);
  queue.close();
  queue.fail(std::make_exception_ptr(std::domain_error("late")));
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, PopWaitsForPushAndPolls) {
  BoundedQueue<int> queue(1);
  int polls = 0;
  const auto item = queue.pop([&] {
    if (++polls == 1) queue.push(7);
  });
  EXPECT_EQ(item, 7);
  EXPECT_EQ(polls, 1);
  EXPECT_EQ(queue.waits(), 1);
}

TEST(BoundedQueueTest, PollMayThrowAndNothingIsLost) {
  BoundedQueue<int> queue(1);
  EXPECT_THROW(queue.pop([] { throw std::domain_error("interrupted"); }), std::domain_error);
  queue.push(1);
  EXPECT_EQ(queue.pop(), 1);
}

TEST(BoundedQueueTest, CloseWakesWaitingThreads) {
  BoundedQueue<int> empty(1);
  BoundedQueue<int> full(1);
  full.push(0);
  const std::jthread popper([&] { EXPECT_EQ(empty.pop(), std::nullopt); });
  const std::jthread pusher([&] { EXPECT_FALSE(full.push(1)); });
  empty.close();
  full.close();
}

TEST(BoundedQueueTest, HoldsNoMoreThanCapacity) {
  BoundedQueue<int> queue(2);
  const std::jthread pusher([&] {
    for (int i = 0; i < 200; ++i) queue.push(i);
    queue.close();
  });
  for (int i = 0; i < 200; ++i) {
    ASSERT_LE(queue.size(), 2u);
    ASSERT_EQ(queue.pop(), i);
  }
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, ManyThreadsLoseAndRepeatNothing) {
  constexpr int kThreads = 3;
  constexpr int kEach = 500;
  BoundedQueue<std::unique_ptr<int>> queue(4);
  std::vector<long> sums(kThreads, 0);
  {
    std::vector<std::jthread> poppers;
    for (long& sum : sums) {
      poppers.emplace_back([&queue, &sum] {
        while (const auto item = queue.pop()) sum += **item;
      });
    }
    {
      std::vector<std::jthread> pushers;
      for (int t = 0; t < kThreads; ++t) {
        pushers.emplace_back([&queue] {
          for (int i = 1; i <= kEach; ++i) queue.push(std::make_unique<int>(i));
        });
      }
    }
    queue.close();
  }
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0L), long{kThreads} * kEach * (kEach + 1) / 2);
}

TEST(BoundedQueueTest, RefusesNoCapacity) { EXPECT_THROW(BoundedQueue<int>(0), std::invalid_argument); }

TEST(BoundedQueueTest, ForkedChildDestroysItWithoutHanging) {
  BoundedQueue<int> queue(1);
  std::jthread popper([&] { queue.pop(); });
  while (queue.waits() == 0) std::this_thread::yield();
  EXPECT_TRUE(true_in_forked_child([&] {
    std::destroy_at(&queue);
    return true;
  }));
  queue.close();
}

}  // namespace
}  // namespace torch_distinput
