// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/step_schedule.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "distribute/vector_rows.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

using model::Rows;

ScheduleRules rules_of(const model::Case& c) {
  return {.splitter = splitter_of(c), .width = c.replicas, .tail = c.tail, .batch = c.batch};
}

std::vector<PlannedStep> run(const ScheduleRules& rules, VectorRows& rows, StepPosition start = {}) {
  StepSchedule schedule(rules, start);
  std::vector<PlannedStep> steps;
  while (auto step = schedule.next(rows)) steps.push_back(std::move(*step));
  return steps;
}

std::vector<Rows> numbers(const VectorRows& rows, const PlannedStep& step) {
  std::vector<Rows> parts;
  for (const Part& part : step.parts) parts.push_back(rows.numbers(part));
  return parts;
}

TEST(StepSchedule, SplitsAndEndsLikeTheModel) {
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    const model::Case c = model::random_case(random);
    SCOPED_TRACE(model::str(c));
    const auto expected = model::steps(c);
    VectorRows rows(c.elements);
    const auto steps = run(rules_of(c), rows);
    ASSERT_EQ(steps.size(), expected.size());
    std::int64_t row = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      ASSERT_EQ(numbers(rows, steps[s]), expected[s].parts) << "step " << s;
      EXPECT_EQ(steps[s].valid, expected[s].valid);
      EXPECT_EQ(steps[s].last, s + 1 == steps.size());
      EXPECT_EQ(steps[s].before.row, row);
      row = steps[s].after.row;
      for (std::size_t g = 0; g < expected[s].present.size(); ++g) {
        EXPECT_EQ(steps[s].parts[g].present, expected[s].present[g]);
      }
    }
  }
}

TEST(StepSchedule, ContinuesAfterTheRowsOfPartsOfAnotherSplitOrBatch) {
  std::mt19937 random(2);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const auto splitter = [&] {
    return draw(0, 1) == 0 ? legacy_splitter(draw(1, 5)) : balanced_splitter(draw(1, 5), {});
  };
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t total = draw(0, 20);
    const auto batches = [&] {
      std::vector<std::int64_t> sizes;
      const std::int64_t batch = draw(1, 7);
      for (std::int64_t n = total; n > 0; n -= batch) sizes.push_back(std::min(n, batch));
      return VectorRows(sizes);
    };
    VectorRows before = batches();
    SplitPosition split;
    std::int64_t row = 0;
    for (const Part& part : splitter()->assign(split, before, draw(0, 12))) row += part.rows;
    VectorRows after = batches();
    // The position counted from the start, because the other batches have other elements.
    if (split.element > 0) {
      for (std::int64_t e = 0; e < split.element; ++e) split.row += *before.rows(e);
      split.element = 0;
    }
    const SplitterPtr other = splitter();
    const auto rest = other->assign(split, after, 1000);
    Rows seen;
    for (const Part& part : rest) {
      const auto of_part = after.numbers(part);
      seen.insert(seen.end(), of_part.begin(), of_part.end());
    }
    ASSERT_EQ(seen, torch_distinput::numbers(row, total)) << "trial " << i;
  }
}

TEST(StepSchedule, TheRestOfABatchOfAnotherSizeIsNotTheEndUnderUntilFirst) {
  const ScheduleRules rules{
      .splitter = legacy_splitter(2), .width = 2, .tail = Tail::kUntilFirst, .batch = 7};
  // An earlier run delivered 20 rows in batches of another size.
  const auto sizes_from = [&](std::vector<std::int64_t> elements, std::int64_t row) {
    VectorRows rows(std::move(elements));
    std::vector<std::int64_t> sizes;
    for (const auto& step :
         run(rules, rows, {.step = 2, .row = 14 + row, .split = {.element = 2, .row = row}}))
      sizes.push_back(step.global_valid);
    return sizes;
  };
  EXPECT_EQ(sizes_from({7, 7, 7, 7, 7, 1}, 6), (std::vector<std::int64_t>{1, 7, 7}));
  // It may also be the end.
  EXPECT_EQ(sizes_from({7, 7, 7}, 6), std::vector<std::int64_t>{});
}

TEST(StepSchedule, ContinuesFromEveryPosition) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    const model::Case c = model::random_case(random);
    SCOPED_TRACE(model::str(c));
    VectorRows rows(c.elements);
    const auto steps = run(rules_of(c), rows);
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto rest = run(rules_of(c), rows, steps[s].after);
      ASSERT_EQ(rest.size(), steps.size() - s - 1) << "after step " << s;
      for (std::size_t k = 0; k < rest.size(); ++k) {
        EXPECT_EQ(numbers(rows, rest[k]), numbers(rows, steps[s + 1 + k]));
        EXPECT_EQ(rest[k].before.step, steps[s + 1 + k].before.step);
      }
    }
  }
}

// Every row once, for any number of replicas before and after, and for any batches after.
TEST(StepSchedule, DeliversEachRowOnceWhenResumedWithOtherReplicas) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    model::Case before = model::random_case(random);
    before.tail = i % 2 == 0 ? Tail::kZeroRows : Tail::kPadded;
    model::Case after = model::random_case(random);
    after.tail = Tail::kZeroRows;
    after.elements = before.elements;
    SCOPED_TRACE(model::str(before) + " then " + model::str(after));
    VectorRows rows(before.elements);
    const auto steps = run(rules_of(before), rows);
    if (steps.empty()) continue;
    const std::size_t stop = static_cast<std::size_t>(random() % steps.size());
    Rows seen;
    const auto add = [&](const PlannedStep& step) {
      for (std::size_t g = 0; g < step.parts.size(); ++g) {
        const Rows part = rows.numbers(step.parts[g]);
        seen.insert(seen.end(), part.begin(), part.begin() + step.valid[g]);
      }
    };
    for (std::size_t s = 0; s <= stop; ++s) add(steps[s]);
    StepPosition resumed = steps[stop].after;
    resumed.split.part = 0;
    resumed.split.ended = false;
    for (const PlannedStep& step : run(rules_of(after), rows, resumed)) add(step);
    ASSERT_EQ(seen, torch_distinput::numbers(
                        0, std::accumulate(before.elements.begin(), before.elements.end(), std::int64_t{0})));
  }
}

TEST(StepSchedule, KeepsEmptyStepsInTheMiddleAndDropsThemAtTheEnd) {
  VectorRows rows({2, 0, 2, 0, 0});
  const auto steps = run({.splitter = legacy_splitter(2), .width = 2}, rows);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[1].global_valid, 0);
  EXPECT_TRUE(steps[2].last);
}

TEST(StepSchedule, EndlessDataHoldsNoStepBack) {
  VectorRows rows({2, 0, 0, 0});
  StepSchedule schedule({.splitter = legacy_splitter(2), .width = 2, .endless = true}, {});
  EXPECT_EQ(schedule.next(rows)->global_valid, 2);
  EXPECT_EQ(schedule.next(rows)->global_valid, 0);
}

TEST(StepSchedule, MarksTheLastCompleteStep) {
  VectorRows rows({2, 2, 1});
  const auto steps = run({.splitter = v2_splitter({1, 1}), .width = 2}, rows);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_FALSE(steps[0].last_complete);
  EXPECT_TRUE(steps[1].last_complete);
  EXPECT_FALSE(steps[1].last);
  EXPECT_FALSE(steps[2].complete);
}

/// The rows of each part of each step of batches of `elements` rows.
std::vector<std::vector<std::int64_t>> merged_sizes(const SplitterPtr& splitter,
                                                    const std::vector<std::int64_t>& elements) {
  VectorRows rows(elements);
  std::vector<std::vector<std::int64_t>> sizes;
  for (const auto& step :
       run({.splitter = splitter, .width = splitter->parts(), .tail = Tail::kMerge, .batch = 8}, rows))
    sizes.push_back(step.valid);
  return sizes;
}

TEST(StepSchedule, ALastStepThatLacksRowsIsJoinedToTheOneBeforeItAndDealtOutEvenly) {
  using Sizes = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(merged_sizes(balanced_splitter(4, {}), {8, 8, 3}), (Sizes{{2, 2, 2, 2}, {3, 3, 3, 2}}));
  EXPECT_EQ(merged_sizes(balanced_splitter(4, {}), {8, 8, 4}),
            (Sizes{{2, 2, 2, 2}, {2, 2, 2, 2}, {1, 1, 1, 1}}));
  EXPECT_EQ(merged_sizes(legacy_splitter(4), {8, 8, 5}), (Sizes{{2, 2, 2, 2}, {4, 3, 3, 3}}));
  EXPECT_EQ(merged_sizes(v2_splitter({2, 2, 2, 2}), {8, 8, 1}), (Sizes{{2, 2, 2, 2}, {3, 2, 2, 2}}));
  // An only step is dealt out anew, if it has a row for each.
  EXPECT_EQ(merged_sizes(legacy_splitter(4), {5}), (Sizes{{2, 1, 1, 1}}));
  EXPECT_EQ(merged_sizes(legacy_splitter(4), {3}), (Sizes{{1, 1, 1, 0}}));
  // Steps in the middle stay, and no third step is joined.
  EXPECT_EQ(merged_sizes(balanced_splitter(4, {}), {8, 1, 8, 1, 1}),
            (Sizes{{2, 2, 2, 2}, {1, 0, 0, 0}, {2, 2, 2, 2}, {1, 0, 0, 0}, {1, 0, 0, 0}}));
  // Shares by weight, but a row for each.
  EXPECT_EQ(merged_sizes(balanced_splitter(2, {1, 9}), {8, 4}), (Sizes{{2, 10}}));
}

TEST(StepSchedule, LooksAThirdStepAheadOnlyBehindAStepThatLacksRows) {
  VectorRows rows({8, 8, 8, 1, 8, 8});
  StepSchedule schedule({.splitter = balanced_splitter(2, {}), .width = 2, .tail = Tail::kMerge}, {});
  std::vector<std::int64_t> asked;
  while (schedule.next(rows)) asked.push_back(rows.furthest());
  EXPECT_EQ(asked, (std::vector<std::int64_t>{1, 2, 4, 4, 5, 6}));
}

/// Rows that cannot be read from some element on.
class FailingRows final : public RowCounts {
 public:
  std::optional<std::int64_t> rows(std::int64_t element) override {
    if (element >= 3) throw std::runtime_error("row 6 is broken");
    return 2;
  }
};

TEST(StepSchedule, ReturnsTheStepsBeforeAnErrorAndThenThrowsItEveryTime) {
  FailingRows rows;
  StepSchedule schedule({.splitter = v2_splitter({2, 2}), .width = 2}, {});
  const auto first = schedule.next(rows);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->last);
  EXPECT_EQ(first->after.row, 4);
  EXPECT_THROW(schedule.next(rows), std::runtime_error);
  EXPECT_THROW(schedule.next(rows), std::runtime_error);
}

}  // namespace
}  // namespace torch_distinput
