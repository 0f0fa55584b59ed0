// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/state_reader.h"
#include "ops/op_testing.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Repeat, YieldsTheElementsCountTimes) {
  EXPECT_EQ(values(Dataset::range(3).repeat(2)), Values({0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values(generated(3).repeat(2)), Values({0, 1, 2, 0, 1, 2}));
}

TEST(Repeat, ZeroTimesIsEmpty) {
  EXPECT_EQ(values(Dataset::range(3).repeat(0)), Values());
  EXPECT_EQ(values(generated(3).repeat(0)), Values());
}

TEST(Repeat, WithoutACountNeverEnds) {
  const Values expected = {0, 1, 2, 0, 1, 2, 0};
  EXPECT_EQ(values(Dataset::range(3).repeat().take(7)), expected);
  EXPECT_EQ(values(Dataset::range(3).repeat(-1).take(7)), expected);
  EXPECT_EQ(values(generated(3).repeat().take(7)), expected);
}

TEST(Repeat, OfAnEmptyDatasetWithoutACountEnds) {
  EXPECT_EQ(values(Dataset::range(0).repeat()), Values());
  EXPECT_EQ(values(generated(0).repeat()), Values());
}

TEST(Repeat, AnEmptyRoundInBetweenDoesNotEndACountedRepeat) {
  std::int64_t opened = 0;
  const auto open = [&opened] {
    const bool is_empty = opened++ == 1;
    return [left = is_empty ? 0 : 1]() mutable -> std::optional<Element> {
      if (left == 0) return std::nullopt;
      return scalar(--left);
    };
  };
  EXPECT_EQ(values(scalars_from(open).repeat(3)), Values({0, 0}));
}

TEST(Repeat, ShufflesEachRoundDifferently) {
  const Values all = values(Dataset::range(20).shuffle({.seed = 7}).repeat(2));
  const Values first(all.begin(), all.begin() + 20);
  const Values second(all.begin() + 20, all.end());
  EXPECT_EQ(sorted(first), numbers(0, 20));
  EXPECT_EQ(sorted(second), numbers(0, 20));
  EXPECT_NE(first, second);
}

TEST(Repeat, HasEqualRoundsWithoutReshuffling) {
  const Dataset once = Dataset::range(20).shuffle({.seed = 7, .reshuffle_each_iteration = false});
  const Values all = values(once.repeat(2));
  EXPECT_EQ(Values(all.begin(), all.begin() + 20), Values(all.begin() + 20, all.end()));
}

TEST(Repeat, CanBeBatchedAcrossTheBorderOfRounds) {
  const std::vector<Values> expected = {{0, 1}, {2, 0}, {1, 2}};
  EXPECT_EQ(elements(Dataset::range(3).repeat(2).batch(2)), expected);
}

TEST(Repeat, CanBeShuffledOverManyRounds) {
  const Dataset dataset = Dataset::range(5).repeat(40).shuffle({.seed = 1});
  Values expected;
  for (int round = 0; round < 40; ++round) expected.insert(expected.end(), {0, 1, 2, 3, 4});
  EXPECT_EQ(sorted(values(dataset.batch(32))), sorted(expected));
}

TEST(Repeat, KnowsItsCardinality) {
  EXPECT_EQ(Dataset::range(3).repeat(4).cardinality(), 12);
  EXPECT_EQ(Dataset::range(3).repeat(0).cardinality(), 0);
  EXPECT_EQ(Dataset::range(3).repeat().cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Dataset::range(0).repeat().cardinality(), 0);
  EXPECT_EQ(Dataset::range(3).repeat().repeat(2).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(generated(3).repeat(2).cardinality(), kUnknownCardinality);
  EXPECT_EQ(generated(3).repeat().cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Dataset::range(3).repeat(kEndless).cardinality(), kInfiniteCardinality);
}

TEST(Repeat, RefusesOtherNegativeCounts) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).repeat(-2); }),
            "repeat: `count` must be at least 0, or None or -1 to repeat without end, but is -2.");
}

TEST(Repeat, CountsRowsOfShortBatchesInMidStream) {
  const PlanPtr plan = plan_of(Dataset::range(7).batch(3).repeat(2));
  ASSERT_EQ(plan->size(), 6);
  const Values rows = {3, 3, 1, 3, 3, 1};
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(plan->rows(step), rows[static_cast<std::size_t>(step)]);
    EXPECT_EQ(plan->rows_before(step), before);
    before += rows[static_cast<std::size_t>(step)];
  }
  EXPECT_EQ(plan->rows_before(6), before);
}

TEST(Repeat, CountsRowsIfRoundsDiffer) {
  const PlanPtr plan = plan_of(Dataset::range(7).batch(3).shuffle({.seed = 1}).take(2).repeat(30));
  std::int64_t before = 0;
  for (std::int64_t step = 0; step < plan->size(); ++step) {
    EXPECT_EQ(plan->rows_before(step), before);
    before += plan->rows(step);
  }
  EXPECT_EQ(plan->rows_before(plan->size()), before);
  EXPECT_LT(before, 30 * 6);  // some rounds have the short batch
}

/// An iterator of `dataset` at the saved `position` and `row`.
DatasetIterator at_row(const Dataset& dataset, std::int64_t position, std::int64_t row) {
  DatasetIterator iterator = dataset.iterate({.epoch = 0, .seed = 1});
  State state = iterator.save();
  state.set("position", State().set("path", "random access").set("position", position).set("row", row));
  iterator.load(state);
  return iterator;
}

TEST(Repeat, FindsARowOfAnyRoundInConstantTimeIfAllRoundsHaveTheSameRows) {
  constexpr std::int64_t kRounds = 100'000'000'000;
  for (const Dataset& round :
       {Dataset::range(10).batch(4), Dataset::range(10).shuffle({.seed = 1}).batch(4)}) {
    DatasetIterator iterator = at_row(round.repeat(), 3 * kRounds + 2, 10 * kRounds + 8);
    EXPECT_EQ(iterator.next()->rows(), 2);
    EXPECT_EQ(iterator.next()->rows(), 4);
  }
}

TEST(Repeat, RefusesAPositionWithRowsThatNoSuchElementsHave) {
  const Dataset dataset = Dataset::range(10).batch(4).repeat();
  EXPECT_EQ(message_of<c10::ValueError>([&] { at_row(dataset, 5, kMaxCounted); }),
            "state: the saved position is damaged: 5 elements cannot have 281474976710656 rows.");
  EXPECT_EQ(message_of<c10::ValueError>([&] { at_row(dataset, kMaxCounted, 5); }),
            "state: the saved position is damaged: 281474976710656 elements cannot have 5 rows.");
}

TEST(Repeat, CutsRowsAcrossTheBorderOfRounds) {
  const PlanPtr plan = plan_of(Dataset::range(7).batch(3).repeat(2));
  const std::vector<Segment> segments = {{1, 1, 3}, {2, 0, 1}, {3, 0, 2}};
  EXPECT_EQ(items(plan->take_rows(segments)), Values({4, 5, 6, 0, 1}));
}

TEST(Repeat, ObeysTheLaws) {
  expect_laws(Dataset::range(4).shuffle({.seed = 5}).repeat(3));
  expect_laws(generated(4).repeat(3));
  expect_laws(generated(0).repeat(3));
  expect_laws(Dataset::range(4).batch(3).repeat(3));
  expect_laws(Dataset::range(2).repeat(3).repeat(2));
}

}  // namespace
}  // namespace torch_distinput
