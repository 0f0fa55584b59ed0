// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

std::vector<Dataset> two(std::int64_t first, std::int64_t second) {
  return {Dataset::range(first), Dataset::range(100, 100 + second)};
}

TEST(SampleFromDatasets, DrawsFromAllUntilAllHaveEnded) {
  const Dataset dataset = Dataset::sample_from_datasets(two(5, 20), {.seed = 3});
  Values expected = numbers(0, 5);
  for (const std::int64_t value : numbers(100, 120)) expected.push_back(value);
  EXPECT_EQ(sorted(values(dataset)), expected);
  EXPECT_EQ(dataset.cardinality(), 25);
  EXPECT_NE(values(dataset), expected);
}

TEST(SampleFromDatasets, FollowsItsSeedAndTheEpoch) {
  const Dataset dataset = Dataset::sample_from_datasets(two(20, 20), {.seed = 3});
  EXPECT_EQ(values(dataset, {.epoch = 1, .seed = 1}), values(dataset, {.epoch = 1, .seed = 2}));
  EXPECT_NE(values(dataset, {.epoch = 0}), values(dataset, {.epoch = 1}));
  const Dataset unseeded = Dataset::sample_from_datasets(two(20, 20));
  EXPECT_NE(values(unseeded, {.epoch = 0, .seed = 1}), values(unseeded, {.epoch = 0, .seed = 2}));
  EXPECT_TRUE(unseeded.node()->traits().order.unseeded);
  EXPECT_FALSE(dataset.node()->traits().order.unseeded);
}

TEST(SampleFromDatasets, FollowsTheWeights) {
  const Dataset dataset =
      Dataset::sample_from_datasets({Dataset::range(1).repeat(), Dataset::range(1, 2).repeat()},
                                    {.weights = {1, 3}, .seed = 1})
          .take(1000);
  const Values drawn = values(dataset);
  for (std::ptrdiff_t n = 0; n <= 1000; ++n) {
    const auto ones = static_cast<double>(std::count(drawn.begin(), drawn.begin() + n, 1));
    ASSERT_NEAR(ones, 0.75 * static_cast<double>(n), 1 + 1e-9);
  }
}

TEST(SampleFromDatasets, HasRandomAccessWhereItsInputsHave) {
  const auto mixed = [](Dataset first) {
    return Dataset::sample_from_datasets({std::move(first), Dataset::range(100, 109)},
                                         {.weights = {1, 2}, .seed = 3});
  };
  EXPECT_NE(plan_of(mixed(Dataset::range(4).shuffle())), nullptr);
  EXPECT_EQ(plan_of(mixed(generated(4))), nullptr);
  EXPECT_EQ(values(mixed(Dataset::range(4))), values(mixed(generated(4))));
  EXPECT_EQ(stream_values(mixed(Dataset::range(4))), values(mixed(generated(4))));
}

TEST(SampleFromDatasets, LeavesAStreamWithoutWeightOutOfThePlan) {
  EXPECT_NE(plan_of(Dataset::sample_from_datasets({generated(2), Dataset::range(3)}, {.weights = {0, 1}})),
            nullptr);
}

TEST(SampleFromDatasets, KnowsTheRowsOfBatches) {
  const Dataset batches = Dataset::sample_from_datasets(
      {Dataset::range(7).batch(3), Dataset::range(100, 121).batch(5)}, {.weights = {1, 1}, .seed = 3});
  const PlanPtr plan = plan_of(batches.repeat(3));
  std::int64_t rows = 0;
  for (std::int64_t position = 0; position < plan->size(); ++position) {
    ASSERT_EQ(plan->rows_before(position), rows);
    std::int64_t scratch = position;
    const Element element = std::move(plan->fetch({&scratch, 1}).front());
    ASSERT_EQ(plan->rows(position), element.tensor().size(0));
    rows += element.tensor().size(0);
  }
  EXPECT_EQ(plan->rows_before(plan->size()), rows);
  EXPECT_EQ(rows, 3 * 28);
  expect_laws(batches.repeat(3));
}

TEST(SampleFromDatasets, StopsBeforeTheFirstEndAfterAsManyElementsInEveryEpoch) {
  const Dataset dataset =
      Dataset::sample_from_datasets({Dataset::range(30), Dataset::range(100, 103).repeat()},
                                    {.weights = {3, 1}, .stop_on = StopOn::kFirst});
  EXPECT_EQ(dataset.cardinality(), 40);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    Values drawn = values(dataset, {.epoch = epoch});
    EXPECT_EQ(drawn.size(), 40U);
    EXPECT_EQ(drawn, values(dataset, {.epoch = epoch, .stream_only = true}));
    std::erase_if(drawn, [](std::int64_t value) { return value >= 100; });
    EXPECT_EQ(drawn, numbers(0, 30));
  }
  expect_laws(dataset);
}

TEST(SampleFromDatasets, StopsAtTheFirstEndWhereThatIsNotKnownBefore) {
  const Dataset dataset = Dataset::sample_from_datasets({generated(5), Dataset::range(100, 103).repeat()},
                                                        {.seed = 1, .stop_on = StopOn::kFirst});
  EXPECT_EQ(dataset.cardinality(), kUnknownCardinality);
  Values drawn = values(dataset);
  EXPECT_LE(drawn.size(), 12U);
  std::erase_if(drawn, [](std::int64_t value) { return value >= 100; });
  EXPECT_EQ(drawn, numbers(0, 5));
  expect_laws(dataset);
}

TEST(SampleFromDatasets, RefusesAStateThatCannotBe) {
  const Dataset dataset = Dataset::sample_from_datasets({generated(3), generated(9)}, {.seed = 1});
  const auto load = [&](const char* field, State value) {
    DatasetIterator iterator = dataset.iterate({.epoch = 0});
    while (iterator.next()) {
    }
    State state = iterator.save();
    State position = state.at("position");
    position.set(field, std::move(value));
    state.set("position", std::move(position));
    return message_of<c10::ValueError>([&] { dataset.iterate({.epoch = 0}).load(state); });
  };
  EXPECT_TRUE(has(load("ends", State(State::List{State(11), State(5)})), "the saved `ends` must be"));
  EXPECT_TRUE(has(load("ends", State(State::List{State(13)})), "but has 13"));
  EXPECT_TRUE(has(load("ends", State(State::List{State(1), State(2), State(3)})), "but has 3"));
}

TEST(SampleFromDatasets, NeverReadsADatasetWithoutWeight) {
  const Dataset dataset =
      Dataset::sample_from_datasets({Dataset::range(2).repeat(), Dataset::range(3)}, {.weights = {0, 1}});
  EXPECT_EQ(values(dataset), (Values{0, 1, 2}));
  EXPECT_EQ(dataset.cardinality(), 3);
}

TEST(SampleFromDatasets, ObeysTheLaws) {
  expect_laws(Dataset::sample_from_datasets(two(4, 9)));
  expect_laws(Dataset::sample_from_datasets({generated(3), Dataset::range(5).shuffle()}).batch(2));
}

TEST(SampleFromDatasets, RefusesWrongArguments) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::sample_from_datasets({}); }),
            "sample_from_datasets: `datasets` must hold at least 1 dataset, but holds none.");
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::sample_from_datasets(two(1, 1), {.weights = {1}}); }),
            "sample_from_datasets: `weights` must have one entry for each of the 2 datasets, but has 1.");
  EXPECT_EQ(
      message_of<c10::ValueError>([] { Dataset::sample_from_datasets(two(1, 1), {.weights = {1, -2}}); }),
      "sample_from_datasets: `weights` must be finite and at least 0, but one is -2.");
  EXPECT_EQ(
      message_of<c10::ValueError>([] { Dataset::sample_from_datasets(two(1, 1), {.weights = {0, 0}}); }),
      "sample_from_datasets: `weights` must not all be 0.");
  EXPECT_EQ(
      message_of<c10::ValueError>([] {
        Dataset::sample_from_datasets({Dataset::range(1), Dataset::from_tensors(Element(at::zeros({})))});
      }),
      "sample_from_datasets: the element must have one type in all inputs, but is TensorSpec(shape=(), "
      "dtype=torch.int64) and TensorSpec(shape=(), dtype=torch.float32).");
}

}  // namespace
}  // namespace torch_distinput
