// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <thread>

#include <ATen/ops/arange.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// `dataset` with a map that counts the elements read.
Dataset counted(const Dataset& dataset, const std::shared_ptr<std::atomic<int>>& count) {
  return dataset.map([count](Element element) {
    ++*count;
    return element;
  });
}

TEST(Cache, ReadsItsInputOnce) {
  for (const Dataset& source : {Dataset::range(6), generated(6)}) {
    const auto count = std::make_shared<std::atomic<int>>(0);
    const Dataset cached = counted(source, count).cache();
    EXPECT_EQ(values(cached), numbers(0, 6));
    EXPECT_EQ(values(cached, {.epoch = 1}), numbers(0, 6));
    EXPECT_EQ(*count, 6);
  }
}

TEST(Cache, ReadsItsInputOnceForAllRoundsOfARepeat) {
  const auto count = std::make_shared<std::atomic<int>>(0);
  EXPECT_EQ(values(counted(generated(3), count).cache().repeat(3)), Values({0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(*count, 3);
}

TEST(Cache, ReadsOnlyTheRowsAskedFor) {
  const auto count = std::make_shared<std::atomic<int>>(0);
  const Dataset cached = counted(Dataset::range(100), count).cache();
  EXPECT_EQ(values(cached.take(4)), numbers(0, 4));
  EXPECT_EQ(values(cached.take(4)), numbers(0, 4));
  EXPECT_EQ(*count, 4);
}

TEST(Cache, KeepsRowsWithALayoutToo) {
  const Dataset cached = Dataset::from_tensor_slices(at::arange(20).reshape({10, 2})).cache();
  ASSERT_NE(plan_of(cached)->layout(), nullptr);
  const Dataset batches = cached.shuffle({.seed = 1}).batch(4);
  const std::vector<Values> first = elements(batches);
  EXPECT_EQ(elements(batches), first);
  EXPECT_EQ(sorted(values(batches)), numbers(0, 20));
  EXPECT_EQ(values(cached), numbers(0, 20));
}

TEST(Cache, KeepsTheRowsItHasSeen) {
  const at::Tensor data = at::arange(4);
  const Dataset cached = Dataset::from_tensor_slices(data).cache();
  EXPECT_EQ(values(cached.batch(4)), numbers(0, 4));
  data.zero_();
  EXPECT_EQ(values(cached.batch(4)), numbers(0, 4));
  EXPECT_EQ(values(cached), numbers(0, 4));
}

TEST(Cache, AcceptsTheSameRowTwiceInARequest) {
  const PlanPtr plan = plan_of(Dataset::range(4).map(same).cache());
  Values positions = {2, 2, 1, 2};
  Values fetched;
  for (const Element& element : plan->fetch(positions)) fetched.push_back(scalar(element));
  EXPECT_EQ(fetched, Values({2, 2, 1, 2}));
}

TEST(Cache, FreezesAShuffleBeforeIt) {
  const Dataset cached = Dataset::range(20).shuffle({.seed = 1}).cache();
  EXPECT_EQ(values(cached, {.epoch = 0}), values(cached, {.epoch = 1}));
  EXPECT_EQ(values(cached, {.epoch = 0}),
            values(Dataset::range(20).shuffle({.seed = 1}).cache(), {.epoch = 5}));
}

TEST(Cache, DoesNotFreezeAShuffleAfterIt) {
  const Dataset dataset = Dataset::range(20).cache().shuffle({.seed = 1});
  EXPECT_NE(values(dataset, {.epoch = 0}), values(dataset, {.epoch = 1}));
}

TEST(Cache, KeepsElementsOfDifferentBaseSeedsApart) {
  const Dataset cached = Dataset::range(20).map(same).shuffle().cache();
  EXPECT_EQ(values(cached.take(10), {.epoch = 0, .seed = 1}).size(), 10U);
  EXPECT_EQ(sorted(values(cached, {.epoch = 0, .seed = 2})), numbers(0, 20));
}

TEST(Cache, YieldsMemoryThatTheUserMayWriteTo) {
  const Dataset elementwise = Dataset::range(3).map(same).cache();
  for (const Dataset& cached : {Dataset::range(3).cache(), elementwise, generated(3).cache()}) {
    for (int epoch = 0; epoch < 3; ++epoch) {
      Values seen;
      DatasetIterator iterator = cached.iterate({.epoch = epoch});
      while (std::optional<Element> element = iterator.next()) {
        seen.push_back(scalar(*element));
        element->tensor().fill_(-1);
      }
      EXPECT_EQ(seen, numbers(0, 3));
    }
  }
}

TEST(Cache, LosesNoElementAfterAnError) {
  auto fails = std::make_shared<std::atomic<bool>>(true);
  const Dataset cached = Dataset::range(4)
                             .map([fails](Element element) {
                               TORCH_CHECK(!*fails || scalar(element) != 2, "not yet");
                               return element;
                             })
                             .cache();
  EXPECT_THROW(values(cached), c10::Error);
  *fails = false;
  EXPECT_EQ(values(cached), numbers(0, 4));
}

TEST(Cache, SharesRowsBetweenIteratorsInManyThreads) {
  const Dataset columns = Dataset::range(200).cache().batch(7);
  const Dataset rows = Dataset::range(200).map(same).cache().batch(7);
  const Dataset stream = generated(200).cache().batch(7);
  for (const Dataset& cached : {columns, rows, stream}) {
    std::vector<Values> seen(4);
    std::vector<std::thread> threads;
    for (Values& mine : seen) threads.emplace_back([&cached, &mine] { mine = values(cached); });
    for (std::thread& thread : threads) thread.join();
    for (const Values& mine : seen) EXPECT_EQ(mine, numbers(0, 200));
  }
}

TEST(Cache, IsFilledAfterARestartInTheMiddle) {
  const auto count = std::make_shared<std::atomic<int>>(0);
  const Dataset first = counted(generated(6), count).cache();
  DatasetIterator iterator = first.iterate({.epoch = 0, .seed = 1});
  for (int i = 0; i < 4; ++i) iterator.next();
  const State state = iterator.save();

  const Dataset second = counted(generated(6), count).cache();
  DatasetIterator restarted = second.iterate({.epoch = 0, .seed = 1});
  restarted.load(state);
  EXPECT_EQ(elements(restarted), (std::vector<Values>{{4}, {5}}));
  *count = 0;
  EXPECT_EQ(values(second, {.epoch = 1, .seed = 1}), numbers(0, 6));
  EXPECT_EQ(*count, 0);
}

TEST(Cache, RefusesAnEndlessInputWhenItIsOpened) {
  for (const Dataset& endless : {Dataset::range(3).repeat(), generated(3).repeat()}) {
    EXPECT_EQ(message_of<c10::ValueError>([&] { endless.cache().iterate().next(); }),
              "cache: the input never ends, so it cannot be kept; put `repeat` after `cache`.");
  }
}

TEST(Cache, ObeysTheLaws) {
  expect_laws(Dataset::range(9).shuffle().cache());
  expect_laws(generated(9).cache());
  expect_laws(generated(9).shuffle({.buffer_size = 4}).cache().repeat(2));
  expect_laws(Dataset::range(9).map(same).cache().shuffle().batch(2));
  expect_laws(Dataset::range(9).batch(2).cache());
}

}  // namespace
}  // namespace torch_distinput
