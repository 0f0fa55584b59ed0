// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_thread.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

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

TEST(RunApart, WaitsForTheBody) {
  bool finished = false;
  run_apart("apart", [&] { finished = true; }, std::chrono::minutes{1});
  EXPECT_TRUE(finished);
}

TEST(RunApart, LeavesABodyThatTakesLongerToEndByItself) {
  const auto go_on = std::make_shared<std::latch>(1);
  auto held = std::make_shared<std::latch>(1);
  const std::weak_ptr<std::latch> seen = held;
  run_apart("apart", [go_on, held = std::move(held)] { go_on->wait(); }, std::chrono::milliseconds{1});
  EXPECT_FALSE(seen.expired());
  go_on->count_down();
  while (!seen.expired()) std::this_thread::yield();  // destroyed by the thread
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

TEST(ThreadPoolTest, TasksMayWaitForEachOther) {
  const auto pool = make_thread_pool(3, "pool");
  EXPECT_EQ(pool->concurrency(), 3);
  std::latch met(3);
  std::latch done(3);
  for (int i = 0; i < 3; ++i) {
    pool->submit([&] {
      met.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
}

/// Threads of this process with that name.
std::ptrdiff_t threads_named(const std::string& name) {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return std::count_if(begin(all), end(all), [&](const auto& entry) {
    std::string found;
    std::ifstream(entry.path() / "comm") >> found;
    return found == name;
  });
}

TEST(ThreadPoolTest, StartsOtherThreadsWhenMoreTasksWait) {
  const auto pool = make_thread_pool(8, "few", 2);
  for (int i = 0; i < 100; ++i) {
    std::latch done(1);
    pool->submit([&] { done.count_down(); });
    done.wait();
  }
  // A thread that has done its task may not wait for the next one yet.
  EXPECT_LT(threads_named("few"), 8);
  std::latch met(8);
  std::latch done(8);
  for (int i = 0; i < 8; ++i) {
    pool->submit([&] {
      met.arrive_and_wait();
      done.count_down();
    });
  }
  done.wait();
  EXPECT_EQ(threads_named("few"), 8);
}

TEST(ThreadPoolTest, KnowsWhetherTasksWait) {
  std::latch begun(1);
  std::latch release(1);
  const auto pool = make_thread_pool(1, "pool");
  EXPECT_FALSE(pool->has_waiting());
  pool->submit([&] {
    begun.count_down();
    release.wait();
  });
  begun.wait();
  EXPECT_FALSE(pool->has_waiting());
  pool->submit([] {});
  EXPECT_TRUE(pool->has_waiting());
  release.count_down();
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> order;
  std::latch done(100);
  const auto pool = make_thread_pool(1, "pool");
  for (int i = 0; i < 100; ++i) {
    pool->submit([&order, &done, i] {
      order.push_back(i);
      done.count_down();
    });
  }
  done.wait();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPoolTest, DestructionWaitsForRunningTasksAndDropsTheRest) {
  std::latch begun(1);
  std::latch release(1);
  std::atomic<bool> finished{false};
  std::atomic<int> started_late{0};
  const auto tracer = std::make_shared<int>(0);
  auto pool = make_thread_pool(1, "pool");
  pool->submit([&] {
    begun.count_down();
    release.wait();
    finished = true;
  });
  begun.wait();
  for (int i = 0; i < 10; ++i) pool->submit([&started_late, tracer] { ++started_late; });
  // Destroying the first dropped task lets the running one end, so tasks must be dropped before the join.
  auto releaser = std::shared_ptr<void>(nullptr, [&](void*) { release.count_down(); });
  pool->submit([held = std::move(releaser)] {});
  pool.reset();
  EXPECT_TRUE(finished);
  EXPECT_EQ(started_late.load(), 0);
  EXPECT_EQ(tracer.use_count(), 1);
}

TEST(ThreadPoolTest, TaskMayDestroyTheThreadPool) {
  const auto stored = std::make_shared<std::latch>(1);
  const auto destroyed = std::make_shared<std::latch>(1);
  auto pool = make_thread_pool(2, "pool");
  pool->submit([&pool, stored, destroyed] {
    stored->wait();
    pool.reset();
    destroyed->count_down();
  });
  stored->count_down();
  destroyed->wait();
}

TEST(ThreadPoolTest, ForkedChildDestroysThemWithoutHanging) {
  auto pool = make_thread_pool(2, "pool");
  EXPECT_TRUE(true_in_forked_child([&] {
    pool.reset();
    return true;
  }));
}

TEST(ThreadPoolTest, RefusesNoThreads) { EXPECT_THROW(make_thread_pool(0, "pool"), std::invalid_argument); }

}  // namespace
}  // namespace torch_distinput
