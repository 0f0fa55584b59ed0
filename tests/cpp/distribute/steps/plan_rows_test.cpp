// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/plan_rows.h"

#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "distribute/vector_rows.h"

namespace torch_distinput {
namespace {

/// A plan whose elements have given numbers of rows.
class RowsPlan final : public Plan {
 public:
  explicit RowsPlan(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}
  std::int64_t size() const override { return std::ssize(rows_); }
  std::vector<Element> fetch(std::span<std::int64_t>) const override { return {}; }
  std::int64_t rows(std::int64_t position) const override {
    return rows_[static_cast<std::size_t>(position)];
  }

 private:
  std::vector<std::int64_t> rows_;
};

PlanRows plan_rows(std::vector<std::int64_t> rows) {
  return PlanRows(std::make_shared<RowsPlan>(std::move(rows)), /*unbatched=*/false);
}

TEST(PlanRows, LocatesEveryRow) {
  PlanRows rows = plan_rows({3, 0, 1, 4});
  EXPECT_EQ(rows.locate(0), (SplitPosition{.element = 0}));
  EXPECT_EQ(rows.locate(2), (SplitPosition{.element = 0, .row = 2}));
  EXPECT_EQ(rows.locate(3), (SplitPosition{.element = 2}));
  EXPECT_EQ(rows.locate(7), (SplitPosition{.element = 3, .row = 3}));
  EXPECT_EQ(rows.locate(8), (SplitPosition{.element = 4}));
  EXPECT_EQ(rows.locate(100), (SplitPosition{.element = 4}));
}

TEST(PlanRows, LocatesRowsOfEndlessData) {
  PlanRows rows(op_testing::plan_of(Dataset::range(10).batch(4).repeat()), /*unbatched=*/false);
  EXPECT_EQ(rows.locate(25), (SplitPosition{.element = 7, .row = 1}));
}

TEST(PlanRows, IsNullIfOnlyTheDataHasTheRowCounts) {
  const auto plan = op_testing::plan_of(Dataset::range(4).batch(2).map(op_testing::same));
  ASSERT_TRUE(plan);
  EXPECT_FALSE(PlanRows::make(plan, /*unbatched=*/false));
  EXPECT_FALSE(PlanRows::make(nullptr, /*unbatched=*/false));
  EXPECT_TRUE(PlanRows::make(plan, /*unbatched=*/true));
}

TEST(CountSteps, AgreesWithTheModel) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    const model::Case c = model::random_case(random);
    SCOPED_TRACE(model::str(c));
    PlanRows rows = plan_rows(c.elements);
    const ScheduleRules rules{splitter_of(c), c.replicas, c.tail, c.batch};
    const auto expected = model::steps(c);
    EXPECT_EQ(count_steps(rules, rows, /*only_complete=*/false), std::ssize(expected));
    if (c.tail == Tail::kPadded || c.tail == Tail::kRepeat) continue;
    const auto complete = std::count_if(expected.begin(), expected.end(), [](const model::Step& step) {
      return std::find(step.present.begin(), step.present.end(), false) == step.present.end();
    });
    EXPECT_EQ(count_steps(rules, rows, /*only_complete=*/true), complete);
  }
}

TEST(CountSteps, IsFastForABillionRows) {
  // Looking back from the end finds the short step first, alone.
  for (std::size_t empty = 0; empty < 40; ++empty) {
    std::vector<std::int64_t> elements(50, 8);
    elements.push_back(1);
    elements.resize(elements.size() + empty, 0);
    PlanRows rows = plan_rows(elements);
    EXPECT_EQ(count_steps({balanced_splitter(2, {}), 2, Tail::kMerge}, rows, false), 50) << empty;
  }
}

TEST(RowsToMerge, AreThoseOfALastStepThatLeavesAReplicaWithoutRows) {
  const auto of = [](std::vector<std::int64_t> elements, SplitterPtr splitter) {
    PlanRows rows = plan_rows(std::move(elements));
    return rows_to_merge({splitter, splitter->parts()}, rows);
  };
  EXPECT_EQ(of({8, 8, 3}, balanced_splitter(4, {})), 3);
  EXPECT_EQ(of({8, 8, 5}, legacy_splitter(4)), 5);
  EXPECT_EQ(of({8, 8, 5}, balanced_splitter(4, {})), std::nullopt);
  // Too few rows in all.
  EXPECT_EQ(of({3}, balanced_splitter(4, {})), std::nullopt);
  EXPECT_EQ(of({}, balanced_splitter(4, {})), std::nullopt);
  PlanRows endless(op_testing::plan_of(Dataset::range(10).batch(4).repeat()), /*unbatched=*/false);
  EXPECT_EQ(rows_to_merge({balanced_splitter(4, {}), 4}, endless), std::nullopt);
}

TEST(CountSteps, NeedsNoTimeForABillionRows) {
  PlanRows rows(op_testing::plan_of(Dataset::range(1'000'000'001).batch(64)), /*unbatched=*/false);
  EXPECT_EQ(count_steps({legacy_splitter(3), 3}, rows, false), 15'625'001);
  EXPECT_EQ(count_steps({v2_splitter({22, 21, 21}), 3, Tail::kDrop}, rows, false), 15'625'000);
  EXPECT_EQ(count_steps({legacy_splitter(3), 3, Tail::kMerge}, rows, false), 15'625'000);
}

TEST(CountSteps, EndlessDataHasNoNumber) {
  PlanRows rows(op_testing::plan_of(Dataset::range(10).batch(4).repeat()), /*unbatched=*/false);
  EXPECT_EQ(count_steps({legacy_splitter(2), 2}, rows, false), std::nullopt);
}

}  // namespace
}  // namespace torch_distinput
