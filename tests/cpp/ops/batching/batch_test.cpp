// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>

#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

const IterateOptions kStream{.epoch = 0, .stream_only = true};

TEST(Batch, MakesRowsOfElements) {
  const Dataset dataset = Dataset::range(10).batch(4);
  const std::vector<Values> expected{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}};
  EXPECT_EQ(elements(dataset), expected);
  EXPECT_EQ(elements(dataset, kStream), expected);
  EXPECT_EQ(dataset.cardinality(), 3);
}

TEST(Batch, DropsAShortLastBatchWithDropRemainder) {
  const Dataset dataset = Dataset::range(10).batch(4, {.drop_remainder = true});
  const std::vector<Values> expected{{0, 1, 2, 3}, {4, 5, 6, 7}};
  EXPECT_EQ(elements(dataset), expected);
  EXPECT_EQ(elements(dataset, kStream), expected);
  EXPECT_EQ(dataset.cardinality(), 2);
}

TEST(Batch, KnowsItsRowsOnlyWhenItDropsTheRemainder) {
  EXPECT_EQ(to_string(Dataset::range(8).batch(4).element_spec()),
            "TensorSpec(shape=(None,), dtype=torch.int64)");
  EXPECT_EQ(to_string(Dataset::range(8).batch(4, {.drop_remainder = true}).element_spec()),
            "TensorSpec(shape=(4,), dtype=torch.int64)");
  EXPECT_EQ(Dataset::range(8).batch(4).node()->batch_size(), 4);
}

TEST(Batch, OfBatchesKeepsTheInnerRows) {
  const Dataset dataset =
      Dataset::range(9).batch(2, {.drop_remainder = true}).batch(3, {.drop_remainder = false});
  const std::vector<Values> expected{{0, 1, 2, 3, 4, 5}, {6, 7}};
  EXPECT_EQ(elements(dataset), expected);
  EXPECT_EQ(elements(dataset, kStream), expected);
  DatasetIterator iterator = dataset.iterate();
  EXPECT_EQ(iterator.next()->tensor().sizes(), at::IntArrayRef({3, 2}));
}

TEST(Batch, RefusesUnequalBatchesAndSaysWhatToDo) {
  const Dataset dataset = Dataset::range(3).batch(2).batch(2);
  EXPECT_EQ(message_of<c10::ValueError>([&] { elements(dataset); }),
            "batch: the element must have one shape, but is (2,) in element 0 of the batch and (1,) in "
            "element 1; use padded_batch or ragged_batch, or map it to one shape.");
}

TEST(Batch, OfAStreamIsAStream) {
  const Dataset dataset = generated(5).batch(2);
  EXPECT_EQ(plan_of(dataset), nullptr);
  EXPECT_EQ(dataset.cardinality(), kUnknownCardinality);
  EXPECT_EQ(elements(dataset), (std::vector<Values>{{0, 1}, {2, 3}, {4}}));
}

TEST(Batch, OfEndlessDataIsEndless) {
  const Dataset dataset = Dataset::range(3).repeat().batch(4);
  EXPECT_EQ(dataset.cardinality(), kInfiniteCardinality);
  DatasetIterator iterator = dataset.iterate();
  EXPECT_EQ(elements(iterator, 3), (std::vector<Values>{{0, 1, 2, 0}, {1, 2, 0, 1}, {2, 0, 1, 2}}));
}

TEST(Batch, OfAnEmptyDatasetIsEmpty) { EXPECT_TRUE(elements(Dataset::range(0).batch(4)).empty()); }

TEST(Batch, BuildsRowsWithoutALayoutByStacking) {
  const Dataset dataset = Dataset::from_rows(std::make_shared<fakes::Rows>(5)).batch(2);
  EXPECT_EQ(elements(dataset), (std::vector<Values>{{0, 1}, {2, 3}, {4}}));
}

TEST(Batch, TakesTheRowsOfAllSegmentsWithOneGather) {
  const PlanPtr plan = plan_of(Dataset::range(10).batch(4));
  const std::array<Segment, 4> segments{Segment{2, 1, 2}, Segment{0, 0, 2}, Segment{0, 0, 2},
                                        Segment{1, 3, 3}};
  EXPECT_EQ(items(plan->take_rows(segments)), (Values{9, 0, 1, 0, 1}));
  const std::array<Segment, 1> nothing{Segment{1, 2, 2}};
  EXPECT_EQ(plan->take_rows(nothing).tensor().sizes(), at::IntArrayRef({0}));
}

TEST(Batch, CutsRowsWithoutALayout) {
  const PlanPtr plan = plan_of(Dataset::from_rows(std::make_shared<fakes::Rows>(6)).batch(4));
  const std::array<Segment, 2> segments{Segment{1, 0, 1}, Segment{0, 2, 3}};
  EXPECT_EQ(items(plan->take_rows(segments)), (Values{4, 2}));
  const std::array<Segment, 1> nothing{Segment{0, 1, 1}};
  EXPECT_EQ(plan->take_rows(nothing).tensor().sizes(), at::IntArrayRef({0}));
}

TEST(Batch, CountsItsRows) {
  const PlanPtr kept = plan_of(Dataset::range(10).batch(4));
  EXPECT_EQ(kept->rows(0), 4);
  EXPECT_EQ(kept->rows(2), 2);
  EXPECT_EQ(kept->rows_before(2), 8);
  EXPECT_EQ(kept->rows_before(3), 10);
  const PlanPtr dropped = plan_of(Dataset::range(10).batch(4, {.drop_remainder = true}));
  EXPECT_EQ(dropped->rows_before(2), 8);
}

TEST(Batch, HasALayoutOnlyWhenAllBatchesAreFull) {
  EXPECT_EQ(plan_of(Dataset::range(8).batch(4))->layout(), nullptr);
  const PlanPtr plan = plan_of(Dataset::range(8).batch(4, {.drop_remainder = true}));
  ASSERT_NE(plan->layout(), nullptr);
  EXPECT_EQ(plan->layout()->leaves[0].shape, Dims{4});
  EXPECT_EQ(plan->layout()->leaves[0].bytes, 32);
}

TEST(Batch, GathersBatchesIntoSlots) {
  const PlanPtr plan = plan_of(Dataset::range(8).batch(2, {.drop_remainder = true}));
  std::vector<std::int64_t> positions{3, 0};
  const std::vector<std::int64_t> slots{0, 1};
  Values to(4, -1);
  const RowSink sink{reinterpret_cast<char*>(to.data()), 16};
  plan->gather(positions, slots, {&sink, 1});
  EXPECT_EQ(to, (Values{6, 7, 0, 1}));
  positions = {1, 2};
  const std::vector<std::int64_t> swapped{1, 0};
  plan->gather(positions, swapped, {&sink, 1});
  EXPECT_EQ(to, (Values{4, 5, 2, 3}));
}

TEST(Batch, CountsTheReadAheadOfItsInputInBatches) {
  EXPECT_EQ(plan_of(Dataset::range(100).prefetch(10).batch(4))->traits().read_ahead, 3);
}

TEST(Batch, RefusesASizeBelowOne) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).batch(0); }),
            "batch: `batch_size` must be at least 1, but is 0.");
}

TEST(Batch, DescribesItself) {
  EXPECT_EQ(Dataset::range(3).batch(2).node()->describe(), "batch(batch_size=2, drop_remainder=False)");
}

TEST(Batch, KeepsBatchesUnchangedWhileLaterOnesAreMade) {
  DatasetIterator iterator = Dataset::range(400).batch(4).iterate();
  std::vector<Element> kept;
  while (auto element = iterator.next()) kept.push_back(std::move(*element));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto first = static_cast<std::int64_t>(4 * i);
    EXPECT_EQ(items(kept[i]), numbers(first, first + 4));
  }
}

TEST(Batch, ObeysTheLaws) {
  expect_laws(Dataset::range(23).batch(4));
  expect_laws(Dataset::range(23).batch(4, {.drop_remainder = true}));
  expect_laws(Dataset::range(23).batch(2, {.drop_remainder = true}).batch(3));
  expect_laws(generated(11).batch(4));
}

TEST(Batch, ChangesItsSizeByASchedule) {
  const std::vector<BatchSizeFrom> schedule{{0, 1}, {2, 3}, {3, 2}};
  const Dataset dataset = Dataset::range(10).batch(schedule);
  const std::vector<Values> expected{{0}, {1}, {2, 3, 4}, {5, 6}, {7, 8}, {9}};
  EXPECT_EQ(elements(dataset), expected);
  EXPECT_EQ(elements(dataset, kStream), expected);
  EXPECT_EQ(dataset.cardinality(), 6);
  EXPECT_EQ(Dataset::range(10).batch(schedule, {.drop_remainder = true}).cardinality(), 5);
  EXPECT_EQ(dataset.node()->batch_size(), std::nullopt);
  EXPECT_EQ(Dataset::range(9).batch(std::vector<BatchSizeFrom>{{0, 4}, {2, 4}}).node()->batch_size(), 4);
}

TEST(Batch, WithAScheduleObeysTheLaws) {
  const std::vector<BatchSizeFrom> schedule{{0, 1}, {2, 3}, {3, 2}};
  for (std::int64_t rows = 0; rows < 14; ++rows) {
    for (const bool drop : {false, true}) {
      expect_laws(Dataset::range(rows).batch(schedule, {.drop_remainder = drop}));
      expect_laws(generated(rows).batch(schedule, {.drop_remainder = drop}));
    }
  }
  expect_laws(Dataset::range(20).batch(schedule).shuffle({.seed = 1}).repeat(2));
  expect_laws(Dataset::range(5).repeat(4).batch(schedule).skip(2).take(4).unbatch());
}

TEST(Batch, WithAnotherScheduleIsAnotherPipeline) {
  const auto position = [](std::vector<BatchSizeFrom> schedule) {
    return Dataset::range(10).batch(std::move(schedule)).iterate();
  };
  EXPECT_THROW(position({{0, 1}, {2, 3}}).load(position({{0, 1}, {2, 4}}).save()), c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
