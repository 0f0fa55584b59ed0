// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/ordered_producer.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/arena.h"
#include "runtime/forked_child.h"
#include "runtime/test_executors.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

using Producer = OrderedProducer<std::int64_t>;

std::int64_t identity(std::int64_t index) { return index; }

/// Work that takes a different time for each index, so that items are finished out of order.
std::int64_t uneven(std::int64_t index) {
  volatile std::int64_t spins = index * 7919 % 400;
  while (spins > 0) spins = spins - 1;
  return index;
}

struct NamedExecutor {
  const char* name;
  std::function<std::shared_ptr<Executor>()> make;
};

class OnEveryExecutor : public testing::TestWithParam<NamedExecutor> {
 protected:
  std::shared_ptr<Executor> executor_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(
    OrderedProducer, OnEveryExecutor,
    testing::Values(NamedExecutor{"serial", [] { return serial_executor(); }},
                    NamedExecutor{"arena", [] { return std::make_shared<DrainingExecutor>(make_arena(2)); }},
                    NamedExecutor{"thread_pool", [] { return make_thread_pool(3, "pool"); }},
                    NamedExecutor{"dead", [] { return std::make_shared<ManualExecutor>(2); }}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

TEST_P(OnEveryExecutor, HandsOutInOrder) {
  for (const ProducerOptions options : {ProducerOptions{1, 1}, {4, 1}, {5, 3}, {3, 8}, {64, 16}}) {
    Producer producer(uneven, 0, 1000, executor_, options);
    for (std::int64_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(producer.position(), i);
      ASSERT_EQ(producer.next(), i);
    }
    EXPECT_EQ(producer.next(), std::nullopt);
    EXPECT_EQ(producer.next(), std::nullopt);
    EXPECT_EQ(producer.position(), 1000);
  }
}

TEST_P(OnEveryExecutor, HandsOutInOrderWhileItIsWidened) {
  for (const std::int64_t after : {0, 1, 7, 500}) {
    Producer producer(uneven, 0, 1000, executor_, {.depth = 40, .narrow_depth = 3, .narrow_tasks = 1});
    for (std::int64_t i = 0; i < 1000; ++i) {
      if (i == after) producer.widen();
      ASSERT_EQ(producer.next(), i);
    }
    EXPECT_EQ(producer.next(), std::nullopt);
  }
}

TEST_P(OnEveryExecutor, StartsAtBegin) {
  Producer producer(identity, 7, 9, executor_, {});
  EXPECT_EQ(producer.next(), 7);
  EXPECT_EQ(producer.next(), 8);
  EXPECT_EQ(producer.next(), std::nullopt);
}

TEST_P(OnEveryExecutor, EmptyRangeEndsAtOnce) {
  Producer producer(identity, 5, 5, executor_, {});
  EXPECT_TRUE(producer.ready());
  EXPECT_EQ(producer.next(), std::nullopt);
}

TEST_P(OnEveryExecutor, RangeWithoutEnd) {
  const std::int64_t begin = std::numeric_limits<std::int64_t>::max() - 50;
  Producer producer(identity, begin, std::numeric_limits<std::int64_t>::max(), executor_, {8, 3});
  for (std::int64_t i = 0; i < 50; ++i) ASSERT_EQ(producer.next(), begin + i);
  EXPECT_EQ(producer.next(), std::nullopt);
}

TEST_P(OnEveryExecutor, BuildsEveryIndexOnce) {
  std::vector<std::atomic<int>> built(2000);
  const auto make = [&](std::int64_t index) {
    built[static_cast<std::size_t>(index)].fetch_add(1);
    return uneven(index);
  };
  Producer producer(make, 0, 2000, executor_, {16, 7});
  while (producer.next()) {
  }
  producer.stop();
  for (const auto& count : built) ASSERT_EQ(count.load(), 1);
}

TEST_P(OnEveryExecutor, NeverWorksFurtherAheadThanDepth) {
  constexpr std::int64_t kDepth = 6;
  std::atomic<Producer*> made{nullptr};
  std::atomic<std::int64_t> furthest{0};
  const auto make = [&](std::int64_t index) {
    const Producer* producer = made.load();
    const std::int64_t ahead = index - (producer == nullptr ? 0 : producer->position());
    std::int64_t before = furthest.load();
    while (before < ahead && !furthest.compare_exchange_weak(before, ahead)) {
    }
    return uneven(index);
  };
  Producer producer(make, 0, 2000, executor_, {kDepth, 4});
  made = &producer;
  while (producer.next()) {
  }
  EXPECT_LT(furthest.load(), kDepth);
}

TEST_P(OnEveryExecutor, FailureIsSticky) {
  std::atomic<int> failures{0};
  const auto make = [&](std::int64_t index) {
    if (index == 5) {
      failures.fetch_add(1);
      throw std::runtime_error("row 5");
    }
    return index;
  };
  Producer producer(make, 0, 100, executor_, {4, 2});
  for (std::int64_t i = 0; i < 5; ++i) ASSERT_EQ(producer.next(), i);
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_THROW(
        {
          try {
            producer.next();
          } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "row 5");
            throw;
          }
        },
        std::runtime_error);
    EXPECT_EQ(producer.position(), 5);
    EXPECT_TRUE(producer.ready());
  }
  EXPECT_EQ(failures.load(), 1);
}

TEST_P(OnEveryExecutor, NothingIsBuiltAfterStop) {
  std::atomic<std::int64_t> built{0};
  Producer producer([&](std::int64_t index) { return built.fetch_add(1), index; }, 0, 1'000'000, executor_,
                    {8, 2});
  producer.next();
  producer.stop();
  const std::int64_t at_stop = built.load();
  EXPECT_EQ(producer.next(), std::nullopt);
  EXPECT_TRUE(producer.ready());
  producer.stop();
  EXPECT_EQ(built.load(), at_stop);
}

TEST_P(OnEveryExecutor, DestructionFreesWhatWasBuilt) {
  const auto tracer = std::make_shared<int>(0);
  for (int i = 0; i < 200; ++i) {
    OrderedProducer<std::shared_ptr<int>> producer(
        [tracer](std::int64_t index) { return uneven(index), tracer; }, 0, 1000, executor_, {8, 2});
    for (int k = 0; k < i % 5; ++k) producer.next();
  }
  EXPECT_EQ(tracer.use_count(), 1);
}

TEST_P(OnEveryExecutor, ManyProducersAtOnce) {
  std::vector<std::jthread> consumers;
  for (int c = 0; c < 6; ++c) {
    consumers.emplace_back([this, c] {
      Producer producer(uneven, c, 500, executor_, {4, 1 + c % 3});
      std::int64_t expected = c;
      while (const auto item = producer.next()) ASSERT_EQ(*item, expected++);
      EXPECT_EQ(expected, 500);
    });
    if (std::string(GetParam().name) == "dead") break;  // Its queue belongs to one thread.
  }
}

TEST_P(OnEveryExecutor, MoveOnlyItems) {
  OrderedProducer<std::unique_ptr<std::int64_t>> producer(
      [](std::int64_t index) { return std::make_unique<std::int64_t>(index); }, 0, 20, executor_, {});
  for (std::int64_t i = 0; i < 20; ++i) ASSERT_EQ(**producer.next(), i);
}

TEST(OrderedProducerTest, WithoutThreadsBuildsInNextAndNothingAhead) {
  std::vector<std::int64_t> built;
  const auto consumer = std::this_thread::get_id();
  const auto make = [&](std::int64_t index) {
    EXPECT_EQ(std::this_thread::get_id(), consumer);
    built.push_back(index);
    return index;
  };
  Producer producer(make, 0, 10, serial_executor(), {8, 4});
  EXPECT_TRUE(built.empty());
  EXPECT_FALSE(producer.ready());
  producer.next();
  producer.next();
  EXPECT_EQ(built, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(producer.waits(), 0);
}

TEST(OrderedProducerTest, WorksAheadFromTheStart) {
  const auto executor = std::make_shared<ManualExecutor>(1);
  std::int64_t built = 0;
  Producer producer([&](std::int64_t index) { return ++built, index; }, 0, 100, executor, {5, 2});
  EXPECT_FALSE(producer.ready());
  executor->run_all();
  EXPECT_TRUE(producer.ready());
  EXPECT_EQ(built, 5);
  EXPECT_EQ(producer.next(), 0);
  EXPECT_EQ(executor->queued(), 0u) << "room for one item is less than a burst";
  EXPECT_EQ(producer.next(), 1);
  executor->run_all();
  EXPECT_EQ(built, 7);
}

TEST(OrderedProducerTest, RefillsInBurstsNotItemByItem) {
  const auto executor = std::make_shared<ManualExecutor>(1);
  Producer producer(identity, 0, 400, executor, {16, 4});
  for (std::int64_t i = 0; i < 400; ++i) {
    executor->run_all();
    ASSERT_TRUE(producer.ready());
    ASSERT_EQ(producer.next(), i);
  }
  EXPECT_LE(executor->submitted(), 400u / 4);
}

TEST(OrderedProducerTest, SubmitsNoMoreTasksThanMayRun) {
  const auto executor = std::make_shared<ManualExecutor>(3);
  Producer producer(identity, 0, 1000, executor, {64, 2});
  for (int i = 0; i < 30; ++i) producer.next();
  EXPECT_EQ(executor->queued(), 3u);
}

TEST(OrderedProducerTest, NoTaskWithoutWork) {
  const auto executor = std::make_shared<ManualExecutor>(4);
  Producer producer(identity, 0, 1, executor, {64, 8});
  EXPECT_EQ(executor->queued(), 1u);
  executor->run_all();
  EXPECT_EQ(producer.next(), 0);
  EXPECT_EQ(producer.next(), std::nullopt);
  EXPECT_EQ(executor->submitted(), 1u);
}

TEST(OrderedProducerTest, LongTaskGoesToTheEndOfTheQueue) {
  const auto executor = std::make_shared<ManualExecutor>(1);
  std::int64_t built = 0;
  const auto make = [&](std::int64_t index) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < end) {
    }
    return ++built, index;
  };
  Producer producer(make, 0, 100, executor, {4, 1});
  executor->run_one();
  EXPECT_EQ(built, 1);
  EXPECT_EQ(executor->queued(), 1u);
  executor->run_all();
  EXPECT_EQ(built, 4);
}

TEST(OrderedProducerTest, FailureEndsWorkAhead) {
  const auto executor = std::make_shared<ManualExecutor>(1);
  std::int64_t built = 0;
  const auto make = [&](std::int64_t index) {
    if (index == 0) throw std::runtime_error("row 0");
    return ++built, index;
  };
  Producer producer(make, 0, 100, executor, {4, 1});
  EXPECT_THROW(producer.next(), std::runtime_error);
  executor->run_all();
  EXPECT_EQ(built, 0);
}

TEST(OrderedProducerTest, QueuedTaskOfDestroyedProducerIsHarmless) {
  const auto executor = std::make_shared<ManualExecutor>(2);
  const auto tracer = std::make_shared<int>(0);
  {
    Producer producer([tracer](std::int64_t index) { return index + *tracer; }, 0, 100, executor, {4, 1});
    producer.next();
  }
  EXPECT_EQ(tracer.use_count(), 1);
  EXPECT_EQ(executor.use_count(), 1);
  EXPECT_GT(executor->queued(), 0u);
  executor->run_all();
  EXPECT_EQ(executor->queued(), 0u);
}

/// A producer with one thread, which builds the first item until the test releases it.
class HeldFirstItem : public testing::Test {
 protected:
  std::int64_t make(std::int64_t index) {
    if (index > 0) return index;
    begun_.count_down();
    released_.wait();
    EXPECT_FALSE(stop_returned_.load());
    return index;
  }
  void release_once() {
    if (!release_called_) released_.count_down();
    release_called_ = true;
  }
  void SetUp() override { begun_.wait(); }
  void TearDown() override { release_once(); }

  std::latch begun_{1};
  std::latch released_{1};
  bool release_called_ = false;
  std::atomic<bool> stop_returned_{false};
  Producer producer_{
      [this](std::int64_t index) { return make(index); }, 0, 10, make_thread_pool(1, "pool"), {2, 1}};
};

TEST_F(HeldFirstItem, NextWaitsAndPolls) {
  int polls = 0;
  const auto item = producer_.next([&] {
    ++polls;
    release_once();
  });
  EXPECT_EQ(item, 0);
  EXPECT_GE(polls, 1);
  EXPECT_EQ(producer_.waits(), 1);
}

TEST_F(HeldFirstItem, PollMayThrowAndNothingIsLost) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_THROW(producer_.next([] { throw std::domain_error("interrupted"); }), std::domain_error);
    EXPECT_EQ(producer_.position(), 0);
  }
  release_once();
  for (std::int64_t i = 0; i < 10; ++i) ASSERT_EQ(producer_.next(), i);
  EXPECT_EQ(producer_.next(), std::nullopt);
}

TEST_F(HeldFirstItem, StopWaitsForTheRunningMake) {
  std::jthread releaser([this] {
    for (int i = 0; i < 1000 && !stop_returned_; ++i) std::this_thread::yield();
    release_once();
  });
  producer_.stop();
  stop_returned_ = true;
}

TEST_F(HeldFirstItem, StopFromAnotherThreadEndsTheWait) {
  std::jthread stopper;
  const auto item = producer_.next([&] {
    if (!stopper.joinable()) stopper = std::jthread([this] { producer_.stop(); });
  });
  EXPECT_EQ(item, std::nullopt);
  release_once();
}

TEST_F(HeldFirstItem, ForkedChildDestroysItWithoutHanging) {
  EXPECT_TRUE(true_in_forked_child([this] {
    producer_.stop();
    std::destroy_at(&producer_);
    return true;
  }));
}

TEST(OrderedProducerTest, RefusesBadOptions) {
  EXPECT_THROW(Producer(identity, 0, 1, serial_executor(), {0, 1}), std::invalid_argument);
  EXPECT_THROW(Producer(identity, 0, 1, serial_executor(), {1, 0}), std::invalid_argument);
  EXPECT_THROW(Producer(identity, -1, 1, serial_executor(), {}), std::invalid_argument);
  EXPECT_THROW(Producer(identity, 2, 1, serial_executor(), {}), std::invalid_argument);
}

}  // namespace
}  // namespace torch_distinput
