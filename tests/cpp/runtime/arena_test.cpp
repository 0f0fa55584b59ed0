// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/arena.h"

#include <cstdlib>
#include <latch>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "base/cpus.h"
#include "runtime/forked_child.h"

namespace torch_distinput {
namespace {

void run_one_task(Executor& executor) {
  std::latch ran(1);
  executor.submit([&] { ran.count_down(); });
  ran.wait();
}

TEST(ArenaTest, RunsTasksOnOtherThreads) {
  const auto arena = make_arena(2);
  EXPECT_EQ(arena->concurrency(), 2);
  std::latch ran(50);
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < 50; ++i) {
    arena->submit([&] {
      EXPECT_NE(std::this_thread::get_id(), caller);
      ran.count_down();
    });
  }
  ran.wait();
}

TEST(ArenaTest, ArenaOfOneThreadRunsTasks) { run_one_task(*make_arena(1)); }

TEST(ArenaTest, UsesEveryCpu) {
  // By default oneTBB starts one thread less, and the tasks below would wait for each other without end.
  const auto arena = make_arena(available_cpus());
  std::latch met(available_cpus());
  std::latch done(available_cpus());
  for (int i = 0; i < available_cpus(); ++i) {
    arena->submit([&] {
      met.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

TEST(ArenaTest, TasksRunAfterTheArenaWasDropped) {
  std::latch ran(20);
  {
    const auto arena = make_arena(1);
    for (int i = 0; i < 20; ++i) arena->submit([&] { ran.count_down(); });
  }
  ran.wait();
}

TEST(ArenaTest, SharedArenaIsOne) {
  EXPECT_EQ(shared_arena(), shared_arena());
  run_one_task(*shared_arena());
}

TEST(ArenaTest, RefusesNoThreads) { EXPECT_THROW(make_arena(0), std::invalid_argument); }

TEST(ArenaTest, SerialExecutorHasNoThreads) {
  EXPECT_EQ(serial_executor()->concurrency(), 0);
  EXPECT_THROW(serial_executor()->submit([] {}), std::logic_error);
}

TEST(ArenaTest, ForkedChildIsSerial) {
  run_one_task(*shared_arena());
  EXPECT_TRUE(true_in_forked_child(
      [] { return shared_arena()->concurrency() == 0 && make_arena(2)->concurrency() == 0; }));
  run_one_task(*shared_arena());
}

/// The shared arena reads the environment only once, so each case needs a process of its own.
class LocalWorldSize : public testing::TestWithParam<std::pair<const char*, int>> {};

INSTANTIATE_TEST_SUITE_P(ArenaTest, LocalWorldSize,
                         testing::Values(std::pair{"1", 1}, std::pair{"2", 2}, std::pair{"1000000", 1000000},
                                         std::pair{"", 1}, std::pair{"0", 1}, std::pair{"two", 1}));

TEST_P(LocalWorldSize, DividesTheCpus) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto [text, divisor] = GetParam();
  const int expected = available_cpus() / divisor > 0 ? available_cpus() / divisor : 1;
  EXPECT_EXIT(
      {
        ::setenv("LOCAL_WORLD_SIZE", text, 1);
        std::_Exit(shared_arena()->concurrency() == expected ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace torch_distinput
