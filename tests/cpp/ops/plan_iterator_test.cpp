// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/plan_iterator.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "ops/op_testing.h"
#include "ops/read_ahead.h"
#include "runtime/arena.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

using op_testing::error_of;
using op_testing::numbers;
using op_testing::Values;

std::shared_ptr<Engine> engine(Options options = {}) { return make_engine(options); }

IteratorPtr cursor_of(const Dataset& dataset, Options options = {}) {
  const auto run = engine(options);
  return make_plan_iterator(dataset.node()->plan(epoch_context(run, 1, 0, false)), run);
}

Values next_values(Iterator& cursor) {
  const auto element = cursor.next();
  return element ? op_testing::items(*element) : Values{};
}

TEST(PlanIterator, HandsOutAllElementsInOrder) {
  IteratorPtr cursor = cursor_of(Dataset::range(1000));
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(next_values(*cursor), Values{i});
  EXPECT_FALSE(cursor->next());
  EXPECT_FALSE(cursor->next());
}

TEST(PlanIterator, ReadsNothingBeforeTheFirstElement) {
  const auto source = std::make_shared<fakes::Rows>(10);
  IteratorPtr cursor = cursor_of(Dataset::from_rows(source));
  EXPECT_EQ(source->reads(), 0);
}

TEST(PlanIterator, ReadsNothingAheadWhereThatWasAsked) {
  const at::Tensor rows = at::zeros({100}, at::kLong);
  IteratorPtr cursor =
      cursor_of(Dataset::from_tensor_slices(Element(rows)), {.num_threads = 0, .prefetch = 0});
  for (std::int64_t step = 0; step < 100; ++step) {
    rows.fill_(step);
    ASSERT_EQ(next_values(*cursor), Values{step});
  }
}

TEST(PlanIterator, YieldsTheSameWithAnyNumberOfThreads) {
  const Dataset dataset = Dataset::range(500).shuffle({.seed = 3}).batch(7);
  IteratorPtr serial = cursor_of(dataset, {.num_threads = 0});
  IteratorPtr three = cursor_of(dataset, {.num_threads = 3});
  EXPECT_EQ(op_testing::elements(*three), op_testing::elements(*serial));
}

TEST(PlanIterator, RunsForeignPlansInTheCallersThreadUnlessAskedToReadAhead) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto note = op_testing::foreign([&](Element element) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return element;
  });
  IteratorPtr plain = cursor_of(Dataset::range(20).map(note));
  op_testing::elements(*plain);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
  IteratorPtr ahead = cursor_of(Dataset::range(20).map(note).prefetch(4));
  EXPECT_EQ(op_testing::elements(*ahead).size(), 20U);
}

TEST(PlanIterator, DeliversWhatComesBeforeABadRowAndKeepsItsPosition) {
  const Dataset dataset = Dataset::from_rows(std::make_shared<fakes::Rows>(100, std::set<std::int64_t>{40}));
  IteratorPtr cursor = cursor_of(dataset);
  for (std::int64_t i = 0; i < 40; ++i) ASSERT_EQ(next_values(*cursor), Values{i});
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(error_of<c10::ValueError>([&] { cursor->next(); }), "row 40 is bad");
    EXPECT_EQ(cursor->save().at("position").as_int(), 40);
  }
}

TEST(PlanIterator, RepeatsAnErrorOfTheFirstElement) {
  const auto source = std::make_shared<fakes::Rows>(3, std::set<std::int64_t>{0});
  IteratorPtr cursor = cursor_of(Dataset::from_rows(source));
  EXPECT_THROW(cursor->next(), c10::ValueError);
  EXPECT_THROW(cursor->next(), c10::ValueError);
  EXPECT_EQ(source->reads(), 1);
}

TEST(PlanIterator, GoesOnAfterALoadThatFollowsAnError) {
  const Dataset dataset = Dataset::from_rows(std::make_shared<fakes::Rows>(4, std::set<std::int64_t>{1}));
  IteratorPtr cursor = cursor_of(dataset);
  cursor->next();
  EXPECT_THROW(cursor->next(), c10::ValueError);
  cursor->load(State().set("lane", "plan").set("position", 2));
  EXPECT_EQ(next_values(*cursor), Values{2});
}

TEST(PlanIterator, SavesThePositionAndTheRow) {
  IteratorPtr cursor = cursor_of(Dataset::range(10).batch(4));
  cursor->next();
  EXPECT_EQ(cursor->save().str(), R"({"lane": "plan", "position": 1, "row": 4})");
  cursor->next();
  cursor->next();
  EXPECT_EQ(cursor->save().str(), R"({"lane": "plan", "position": 3, "row": 10})");
  EXPECT_EQ(cursor_of(Dataset::range(10))->save().str(), R"({"lane": "plan", "position": 0})");
}

State at_row(std::int64_t position, std::int64_t row) {
  return State().set("lane", "plan").set("position", position).set("row", row);
}

TEST(PlanIterator, GoesOnAtTheRowWhenTheBatchSizeIsAnother) {
  // Saved after two batches of 3; the grid of 4 starts again at row 8.
  IteratorPtr cursor = cursor_of(Dataset::range(14).batch(4));
  cursor->load(at_row(2, 6));
  EXPECT_EQ(cursor->save(), at_row(1, 6));
  EXPECT_EQ(next_values(*cursor), (Values{6, 7}));
  EXPECT_EQ(cursor->save(), at_row(2, 8));
  EXPECT_EQ(next_values(*cursor), (Values{8, 9, 10, 11}));
  EXPECT_EQ(next_values(*cursor), (Values{12, 13}));
  EXPECT_EQ(cursor->save(), at_row(4, 14));
  EXPECT_FALSE(cursor->next());
}

TEST(PlanIterator, GoesOnAtARowThatStartsABatchOfAnotherSize) {
  IteratorPtr cursor = cursor_of(Dataset::range(20).batch(4));
  cursor->load(at_row(4, 8));
  EXPECT_EQ(next_values(*cursor), (Values{8, 9, 10, 11}));
}

TEST(PlanIterator, EndsWhenTheRowIsBehindAllOthers) {
  IteratorPtr cursor = cursor_of(Dataset::range(10).batch(4, {.drop_remainder = true}));
  cursor->load(at_row(5, 10));
  EXPECT_FALSE(cursor->next());
}

TEST(PlanIterator, FindsTheRowOfEndlessData) {
  const Dataset dataset = Dataset::range(10).repeat().batch(3);
  IteratorPtr cursor = cursor_of(dataset);
  cursor->load(at_row(1000, 2000));
  EXPECT_EQ(next_values(*cursor), (Values{0}));
  EXPECT_EQ(next_values(*cursor), (Values{1, 2, 3}));
}

TEST(PlanIterator, RefusesPositionsThatAreNoneOfItsOwn) {
  IteratorPtr cursor = cursor_of(Dataset::range(3));
  EXPECT_EQ(error_of<c10::ValueError>([&] { cursor->load(State().set("input", 3)); }),
            "state: saved in the stream lane, but this pipeline runs as a plan.");
  EXPECT_EQ(error_of<c10::ValueError>([&] { cursor->load(State().set("lane", "plan").set("position", 4)); }),
            "state: the saved `position` must be in [0, 3], but is 4.");
}

const Sample kSmall{64, std::chrono::microseconds(10)};

TEST(ReadAhead, StaysWithinTheBytesAllowed) {
  const ReadAhead ahead =
      choose_read_ahead({}, *engine(), {std::int64_t{30} << 20, std::chrono::milliseconds(1)});
  EXPECT_LE(ahead.depth, 2);
  const ReadAhead huge =
      choose_read_ahead({}, *engine(), {std::int64_t{1} << 30, std::chrono::milliseconds(1)});
  EXPECT_EQ(huge.depth, 1);
}

TEST(ReadAhead, FollowsWhatThePipelineAsksFor) {
  EXPECT_EQ(choose_read_ahead({.read_ahead = 3}, *engine(), {100000, std::chrono::microseconds(10)}).depth,
            3);
  EXPECT_EQ(choose_read_ahead({}, *engine({.prefetch = 5}), {100000, std::chrono::microseconds(10)}).depth,
            5);
  EXPECT_EQ(choose_read_ahead({}, *engine({.prefetch = 0}), kSmall).executor->concurrency(), 0);
}

TEST(ReadAhead, MakesTinyElementsManyAtATime) {
  EXPECT_GT(choose_read_ahead({}, *engine(), kSmall).chunk, 1);
  const ReadAhead slow = choose_read_ahead({}, *engine(), {64, std::chrono::milliseconds(2)});
  EXPECT_EQ(slow.chunk, 1);
  EXPECT_EQ(slow.burst, 1);
}

TEST(ReadAhead, LeavesElementsThatCostNothingInTheConsumersThread) {
  const ReadAhead ahead = choose_read_ahead({}, *engine(), {64, std::chrono::nanoseconds(300)});
  EXPECT_EQ(ahead.executor->concurrency(), 0);
  EXPECT_GT(ahead.chunk, 1);
}

TEST(ReadAhead, GivesForeignPlansTheThreadsTheyAskFor) {
  const auto threads = [](const PlanTraits& traits) {
    return choose_read_ahead(traits, *engine(), kSmall).executor->concurrency();
  };
  EXPECT_EQ(threads({.foreign = true}), 0);
  EXPECT_EQ(threads({.foreign = true, .read_ahead = 2}), 1);
  EXPECT_EQ(threads({.foreign = true, .lanes = 3}), 3);
}

}  // namespace
}  // namespace torch_distinput
