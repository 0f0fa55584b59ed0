// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <set>

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Dataset choices(Values indices) {
  return Dataset::from_tensor_slices(Element(at::tensor(indices, at::kLong)));
}
std::vector<Dataset> two() { return {Dataset::range(3), Dataset::range(10, 12)}; }

TEST(ChooseFromDatasets, TakesTheNextElementOfTheChosenDataset) {
  EXPECT_EQ(values(Dataset::choose_from_datasets(two(), choices({1, 0, 0, 1}))), (Values{10, 0, 1, 11}));
}

TEST(ChooseFromDatasets, EndsWhenTheChosenDatasetHasEnded) {
  EXPECT_EQ(values(Dataset::choose_from_datasets(two(), choices({1, 1, 1, 0}))), (Values{10, 11}));
}

TEST(ChooseFromDatasets, KnowsItsLengthIfNoDatasetEnds) {
  const std::vector<Dataset> endless{Dataset::range(2).repeat()};
  EXPECT_EQ(Dataset::choose_from_datasets(endless, choices({0, 0, 0})).cardinality(), 3);
  EXPECT_EQ(Dataset::choose_from_datasets(two(), choices({0})).cardinality(), kUnknownCardinality);
}

TEST(ChooseFromDatasets, ObeysTheLaws) {
  expect_laws(Dataset::choose_from_datasets(two(), choices({1, 0, 0, 1, 0, 0})));
  expect_laws(Dataset::choose_from_datasets(two(), choices({1, 0}).repeat()).batch(2));
  expect_laws(Dataset::choose_from_datasets({generated(4)}, choices({0, 0, 0})));
}

TEST(ChooseFromDatasets, HasRandomAccessIfItsInputsHaveIt) {
  const PlanPtr plan = plan_of(Dataset::choose_from_datasets(two(), choices({1, 0, 1, 1, 0})));
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->size(), 3) << "ends with the second dataset";
  Values positions{2, 0};
  EXPECT_EQ(scalar(plan->fetch(positions).front()), 11);
  EXPECT_EQ(plan_of(Dataset::choose_from_datasets({generated(4)}, choices({0}))), nullptr);
  EXPECT_EQ(plan_of(Dataset::choose_from_datasets(two(), generated(2))), nullptr);
}

TEST(ChooseFromDatasets, ReadsAnEndlessChoiceUpToTheEndOfADataset) {
  EXPECT_EQ(plan_of(Dataset::choose_from_datasets(two(), choices({0, 1}).repeat()))->size(), 5);
  const std::vector<Dataset> endless{Dataset::range(2).repeat()};
  EXPECT_EQ(plan_of(Dataset::choose_from_datasets(endless, choices({0}).repeat())), nullptr);
  EXPECT_EQ(plan_of(Dataset::choose_from_datasets(endless, choices({0}).repeat(5)))->size(), 5);
}

TEST(ChooseFromDatasets, ReadsTheChoicesOfEachEpoch) {
  const Dataset dataset =
      Dataset::choose_from_datasets({Dataset::range(30), Dataset::range(100, 130)},
                                    Dataset::range(2).repeat(15).shuffle(ShuffleOptions{.seed = 1}));
  std::set<Values> orders;
  for (const std::int64_t epoch : {0, 1, 2, 1, 0}) {
    const Values found = values(dataset, {.epoch = epoch});
    EXPECT_EQ(found, values(dataset, {.epoch = epoch, .stream_only = true}));
    orders.insert(found);
  }
  EXPECT_EQ(orders.size(), 3);
}

TEST(ChooseFromDatasets, RefusesAnIndexOutOfRange) {
  for (const std::int64_t index : {-1, 2}) {
    EXPECT_EQ(message_of<c10::ValueError>(
                  [&] { values(Dataset::choose_from_datasets(two(), choices({0, index}))); }),
              "choose_from_datasets: `choice` must yield indices in [0, 2), but element 1 is " +
                  std::to_string(index) + ".");
  }
  EXPECT_EQ(
      message_of<c10::TypeError>([] { values(Dataset::choose_from_datasets(two(), choices({0}).batch(1))); }),
      "choose_from_datasets: `choice` must yield int64 scalars, but element 0 is TensorSpec(shape=(1,), "
      "dtype=torch.int64).");
}

}  // namespace
}  // namespace torch_distinput
