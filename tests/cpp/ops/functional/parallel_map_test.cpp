// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <barrier>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Element doubled(const Element& element) { return element.tensor() * 2; }

/// A dataset without random access, so that `map` runs on the sequential path.
Dataset mapped(std::int64_t size, const FunctionPtr& function, std::int64_t calls,
               bool deterministic = true) {
  return generated(size).map(function, {.num_parallel_calls = calls, .deterministic = deterministic});
}

FunctionPtr native(std::function<Element(Element)> function) { return make_function(std::move(function)); }

TEST(ParallelMap, KeepsTheOrder) {
  for (const std::int64_t calls : {1, 2, 5}) {
    EXPECT_EQ(values(mapped(50, native(doubled), calls)), values(Dataset::range(0, 100, 2)));
    EXPECT_EQ(values(mapped(50, runs_user_code(doubled), calls)), values(Dataset::range(0, 100, 2)));
  }
}

TEST(ParallelMap, UnorderedYieldsEveryElementOnce) {
  for (const std::int64_t calls : {1, 2, 5}) {
    EXPECT_EQ(sorted(values(mapped(50, native(doubled), calls, false))), values(Dataset::range(0, 100, 2)));
    EXPECT_EQ(sorted(values(mapped(50, runs_user_code(doubled), calls, false))),
              values(Dataset::range(0, 100, 2)));
  }
}

TEST(ParallelMap, RunsUserCallsInParallel) {
  const auto together = std::make_shared<std::barrier<>>(3);
  const FunctionPtr meet = runs_user_code([together](Element element) {
    together->arrive_and_wait();  // returns only if three calls run at the same time
    return element;
  });
  EXPECT_EQ(values(mapped(9, meet, 3)), numbers(0, 9));
}

TEST(ParallelMap, RunsNoMoreUserCallsThanAskedFor) {
  const auto running = std::make_shared<std::atomic<int>>(0);
  const auto most = std::make_shared<std::atomic<int>>(0);
  const FunctionPtr count = runs_user_code([running, most](Element element) {
    const int now = ++*running;
    for (int seen = *most; now > seen && !most->compare_exchange_weak(seen, now);) {
    }
    std::this_thread::yield();
    --*running;
    return element;
  });
  EXPECT_EQ(values(mapped(60, count, 2)), numbers(0, 60));
  EXPECT_LE(*most, 2);
}

TEST(ParallelMap, UnorderedDoesNotWaitForASlowCall) {
  const auto release = std::make_shared<std::promise<void>>();
  const FunctionPtr slow_first = runs_user_code([wait = release->get_future().share()](Element element) {
    if (scalar(element) == 0) wait.wait();
    return element;
  });
  DatasetIterator iterator = mapped(6, slow_first, 2, false).iterate();
  Values given;
  for (int i = 0; i < 5; ++i) given.push_back(scalar(*iterator.next()));
  EXPECT_EQ(sorted(given), numbers(1, 6));
  release->set_value();
  EXPECT_EQ(elements(iterator), std::vector<Values>{{0}});
}

TEST(ParallelMap, UnorderedSavesWhatWasDeliveredBeforeASlowCall) {
  const auto release = std::make_shared<std::promise<void>>();
  const FunctionPtr slow_first = runs_user_code([wait = release->get_future().share()](Element element) {
    if (scalar(element) == 1) wait.wait();
    return element;
  });
  const Dataset dataset = mapped(8, slow_first, 2, false);
  DatasetIterator iterator = dataset.iterate({.epoch = 0, .seed = 1});
  Values given;
  for (int i = 0; i < 5; ++i) given.push_back(scalar(*iterator.next()));
  const State state = iterator.save();
  release->set_value();

  DatasetIterator restarted = dataset.iterate({.epoch = 0, .seed = 1});
  restarted.load(state);
  const State again = restarted.save();
  for (const Values& element : elements(restarted)) given.push_back(element.front());
  EXPECT_EQ(sorted(given), numbers(0, 8));

  // A map without parallel calls resumes from the same state.
  DatasetIterator sequential = generated(8).map(slow_first).iterate({.epoch = 0, .seed = 1});
  sequential.load(again);
  EXPECT_EQ(elements(sequential), (std::vector<Values>{{1}, {6}, {7}}));
}

TEST(ParallelMap, ThrowsErrorsInOrder) {
  DatasetIterator iterator = mapped(9, runs_user_code(fails_at(3)), 4).iterate();
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(scalar(*iterator.next()), i);
  EXPECT_THROW(iterator.next(), UserCodeError);
}

TEST(ParallelMap, ThrowsAnErrorOfTheInputAfterTheResultsBeforeIt) {
  const Dataset failing = generated(9).map(fails_at(2));
  DatasetIterator iterator = failing.map(runs_user_code(doubled), {.num_parallel_calls = 4}).iterate();
  EXPECT_EQ(scalar(*iterator.next()), 0);
  EXPECT_EQ(scalar(*iterator.next()), 2);
  EXPECT_THROW(iterator.next(), UserCodeError);
}

TEST(ParallelMap, ThrowsAnInterruptAtOnceAndLosesNoElement) {
  struct Interrupt {};
  const auto release = std::make_shared<std::promise<void>>();
  const Dataset blocked = generated(6).map([wait = release->get_future().share()](Element element) {
    if (scalar(element) == 2) wait.wait();
    return element;
  });
  DatasetIterator iterator =
      blocked.prefetch(1).map(runs_user_code(doubled), {.num_parallel_calls = 3}).iterate();
  {
    // The first result is ready, but the input waits for an element that does not come.
    const InterruptScope scope([] { throw Interrupt{}; });
    EXPECT_THROW(iterator.next(), Interrupt);
  }
  release->set_value();
  EXPECT_EQ(elements(iterator), (std::vector<Values>{{0}, {2}, {4}, {6}, {8}, {10}}));
}

TEST(ParallelMap, RunsNothingAfterItIsDestroyed) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  {
    DatasetIterator iterator = mapped(100, runs_user_code([calls](Element element) {
                                        ++*calls;
                                        return element;
                                      }),
                                      4)
                                   .iterate();
    iterator.next();
  }
  EXPECT_EQ(calls.use_count(), 1);
}

TEST(ParallelMap, OfNothingIsEmpty) {
  EXPECT_EQ(values(mapped(0, runs_user_code(doubled), 2)), Values());
  EXPECT_EQ(values(mapped(0, native(doubled), 2, false)), Values());
}

TEST(ParallelMap, WithoutThreadsRunsInTheCallersThread) {
  std::set<std::thread::id> threads;
  const FunctionPtr record = runs_user_code([&threads](Element element) {
    threads.insert(std::this_thread::get_id());
    return element;
  });
  EXPECT_EQ(values(mapped(9, record, 4).with_options({.num_threads = 0})), numbers(0, 9));
  EXPECT_EQ(threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(ParallelMap, ObeysTheLaws) {
  expect_laws(mapped(12, native(doubled), 3));
  expect_laws(mapped(12, runs_user_code(doubled), 3));
  expect_laws(Dataset::range(12).map(runs_user_code(doubled), {.num_parallel_calls = 3}).batch(5));
  for (const FunctionPtr& function : {native(doubled), runs_user_code(doubled)}) {
    EXPECT_NO_THROW(testing::assert_resumable(mapped(12, function, 3, false), /*ordered=*/false));
  }
}

}  // namespace
}  // namespace torch_distinput
