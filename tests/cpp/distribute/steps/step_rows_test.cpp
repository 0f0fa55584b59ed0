// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/step_rows.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"

namespace torch_distinput {
namespace {

using distribute_testing::replicas;
using op_testing::items;

constexpr std::array kTailsOfEpochs = {Tail::kZeroRows, Tail::kPadded,     Tail::kRepeat,
                                       Tail::kDrop,     Tail::kUntilFirst, Tail::kMerge};

/// Each rank's rows of each step, as iterators deliver them: the replicas of one process stand for ranks,
/// which cut one stream in the same way, except for "tf" with a known batch size.
void expect_what_is_delivered(const Dataset& batches, std::int64_t count, const InputOptions& options) {
  const StepRows step_rows(batches, count, options);
  std::int64_t step = 0;
  for (const PerReplica& parts : replicas(count).distribute_dataset(batches, options)) {
    EXPECT_EQ(step_rows.global_valid(step), parts.info().global_valid);
    std::int64_t replica = 0;
    for (const Element& part : parts) EXPECT_EQ(step_rows.rows(step, replica++), items(part));
    ++step;
  }
  EXPECT_EQ(step_rows.num_steps(), step);
}

TEST(StepRows, AreTheRowsThatIteratorsDeliver) {
  for (const Tail tail : kTailsOfEpochs) {
    for (std::int64_t rows = 0; rows < 15; ++rows) {
      for (const std::int64_t batch : {1, 3, 4, 7}) {
        for (const std::int64_t count : {1, 2, 3, 4}) {
          SCOPED_TRACE(::testing::Message() << "tail " << static_cast<int>(tail) << ", " << rows
                                            << " rows in batches of " << batch << " over " << count);
          const InputOptions options{.split = Split::kBalanced, .tail = tail};
          expect_what_is_delivered(Dataset::range(rows).batch(batch), count, options);
          const Dataset more = Dataset::range(rows, 2 * rows).batch(batch);  // a short batch in the middle
          expect_what_is_delivered(Dataset::range(rows).batch(batch).concatenate(more), count, options);
        }
      }
    }
  }
}

TEST(StepRows, CutBatchesAsTfDoesOverRanks) {
  const StepRows step_rows(Dataset::range(12).batch(6), 4, {.split = Split::kTf});
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(step_rows.rows(0, 0), (Rows{0, 1}));
  EXPECT_EQ(step_rows.rows(0, 2), (Rows{4, 5}));
  EXPECT_EQ(step_rows.rows(1, 1), (Rows{8, 9}));
  EXPECT_EQ(step_rows.rows(1, 3), Rows{});
}

TEST(StepRows, KnowTheStepsOfVeryLargeDataAtOnce) {
  const std::int64_t rows = 10'000'000'001;
  const StepRows step_rows(Dataset::range(rows).batch(64), 3, {.split = Split::kBalanced});
  EXPECT_EQ(step_rows.num_steps(), 156'250'001);
  EXPECT_EQ(step_rows.rows(156'250'000, 0), std::vector<std::int64_t>{rows - 1});
  EXPECT_EQ(step_rows.rows(156'249'999, 2).back(), rows - 2);
}

TEST(StepRows, RefuseWhatDoesNotExist) {
  const StepRows step_rows(Dataset::range(5).batch(2), 2, {});
  EXPECT_THROW(step_rows.rows(3, 0), c10::IndexError);
  EXPECT_THROW(step_rows.rows(-1, 0), c10::IndexError);
  EXPECT_THROW(step_rows.rows(0, 2), c10::IndexError);
  EXPECT_THROW(step_rows.global_valid(3), c10::IndexError);
  EXPECT_THROW(StepRows(Dataset::range(5).batch(2), 0, {}), c10::ValueError);
  EXPECT_THROW(StepRows(Dataset::range(5).batch(2).repeat(), 2, {}), c10::ValueError);
  EXPECT_THROW(StepRows(Dataset::range(5).filter([](const Element&) { return true; }).batch(2), 2, {}),
               c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
