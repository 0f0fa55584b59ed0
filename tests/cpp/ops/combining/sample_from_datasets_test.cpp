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
  const auto ones = static_cast<double>(std::count(drawn.begin(), drawn.end(), 1));
  EXPECT_NEAR(ones / 1000, 0.75, 0.05);
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
