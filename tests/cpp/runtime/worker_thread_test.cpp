// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/forked_child.h"

namespace torch_distinput {
namespace {

TEST(WorkerThreadTest, IsJoinedWhenDestroyed) {
  bool finished = false;
  {
    const WorkerThread worker("worker", [&] { finished = true; });
  }
  EXPECT_TRUE(finished);
}

TEST(WorkerThreadTest, HasItsNameCutToWhatTheSystemKeeps) {
  std::string name;
  {
    const WorkerThread worker("a name that is too long", [&] {
      char text[32] = {};
      ::pthread_getname_np(::pthread_self(), text, sizeof(text));
      name = text;
    });
  }
  EXPECT_EQ(name, "a name that is ");
}

TEST(WorkerThreadTest, ReceivesNoSignalsAndLeavesTheCallersMask) {
  sigset_t in_worker;
  ::sigemptyset(&in_worker);
  {
    const WorkerThread worker("worker", [&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &in_worker); });
  }
  sigset_t in_caller;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &in_caller);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) {
    EXPECT_TRUE(::sigismember(&in_worker, signal));
    EXPECT_FALSE(::sigismember(&in_caller, signal));
  }
}

TEST(WorkerThreadTest, MayDestroyItself) {
  const auto stored = std::make_shared<std::latch>(1);
  const auto destroyed = std::make_shared<std::latch>(1);
  std::unique_ptr<WorkerThread> worker;
  worker = std::make_unique<WorkerThread>("worker", [&worker, stored, destroyed] {
    stored->wait();
    worker.reset();
    destroyed->count_down();
  });
  stored->count_down();
  destroyed->wait();
}

TEST(WorkerThreadTest, ForkedChildDestroysItWithoutHanging) {
  std::latch end(1);
  WorkerThread worker("worker", [&] { end.wait(); });
  EXPECT_TRUE(true_in_forked_child([&] {
    std::destroy_at(&worker);
    return true;
  }));
  end.count_down();
}

TEST(LanesTest, TasksMayWaitForEachOther) {
  const auto lanes = make_lanes(3, "lane");
  EXPECT_EQ(lanes->concurrency(), 3);
  std::latch met(3);
  std::latch done(3);
  for (int i = 0; i < 3; ++i) {
    lanes->submit([&] {
      met.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

TEST(LanesTest, OneLaneKeepsTheOrder) {
  std::vector<int> order;
  std::latch done(100);
  const auto lanes = make_lanes(1, "lane");
  for (int i = 0; i < 100; ++i) {
    lanes->submit([&order, &done, i] {
      order.push_back(i);
      done.count_down();
    });
  }
  done.wait();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(LanesTest, DestructionWaitsForRunningTasksAndDropsTheRest) {
  std::latch begun(1);
  std::latch release(1);
  std::atomic<bool> finished{false};
  std::atomic<int> started_late{0};
  const auto tracer = std::make_shared<int>(0);
  auto lanes = make_lanes(1, "lane");
  lanes->submit([&] {
    begun.count_down();
    release.wait();
    finished = true;
  });
  begun.wait();
  for (int i = 0; i < 10; ++i) lanes->submit([&started_late, tracer] { ++started_late; });
  // The first dropped task lets the running one end, so the drop comes before the join.
  auto releaser = std::shared_ptr<void>(nullptr, [&](void*) { release.count_down(); });
  lanes->submit([held = std::move(releaser)] {});
  lanes.reset();
  EXPECT_TRUE(finished);
  EXPECT_EQ(started_late.load(), 0);
  EXPECT_EQ(tracer.use_count(), 1);
}

TEST(LanesTest, TaskMayDestroyTheLanes) {
  const auto stored = std::make_shared<std::latch>(1);
  const auto destroyed = std::make_shared<std::latch>(1);
  auto lanes = make_lanes(2, "lane");
  lanes->submit([&lanes, stored, destroyed] {
    stored->wait();
    lanes.reset();
    destroyed->count_down();
  });
  stored->count_down();
  destroyed->wait();
}

TEST(LanesTest, ForkedChildDestroysThemWithoutHanging) {
  auto lanes = make_lanes(2, "lane");
  EXPECT_TRUE(true_in_forked_child([&] {
    lanes.reset();
    return true;
  }));
}

TEST(LanesTest, RefusesNoThreads) { EXPECT_THROW(make_lanes(0, "lane"), std::invalid_argument); }

}  // namespace
}  // namespace torch_distinput
