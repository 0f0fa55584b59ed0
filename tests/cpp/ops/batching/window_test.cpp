// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Dataset dataset_of(const Element& window, std::size_t leaf = 0) {
  return Dataset(std::get<NodePtr>(window.leaves()[leaf]));
}

TEST(Window, HoldsConsecutiveValuesOfEachLeaf) {
  const Dataset rows = Dataset::zip({Dataset::range(5), Dataset::range(10, 15)});
  std::vector<Values> first;
  std::vector<Values> second;
  for (const Element& window : rows.window(2)) {
    first.push_back(values(dataset_of(window, 0)));
    second.push_back(values(dataset_of(window, 1)));
  }
  EXPECT_EQ(first, (std::vector<Values>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(second, (std::vector<Values>{{10, 11}, {12, 13}, {14}}));
}

TEST(Window, FlattenedAndBatchedIsBatch) {
  const Dataset rows = Dataset::from_tensor_slices(Element(at::arange(14, at::kLong).reshape({7, 2})));
  const Dataset batches = rows.window(3).flat_map([](Element window) { return dataset_of(window).batch(3); });
  EXPECT_EQ(elements(batches), elements(rows.batch(3)));
  expect_laws(batches);
}

TEST(Window, KnowsItsSpecAndLength) {
  EXPECT_EQ(to_string(Dataset::range(5).window(2).element_spec()),
            "DatasetSpec(TensorSpec(shape=(), dtype=torch.int64))");
  EXPECT_EQ(Dataset::range(5).window(2).cardinality(), 3);
  EXPECT_EQ(generated(5).window(2).cardinality(), kUnknownCardinality);
  EXPECT_EQ(Dataset::range(8).batch(2).window(2).node()->batch_size(), std::nullopt);
}

TEST(Window, CanBeReadSeveralTimesAndWrittenTo) {
  const Element window = *Dataset::range(3).window(3).iterate({.epoch = 0}).next();
  for (const Element& element : dataset_of(window)) element.tensor().fill_(7);
  expect_laws(dataset_of(window));
  EXPECT_EQ(values(dataset_of(window)), (Values{0, 1, 2}));
}

TEST(Window, RefusesAnEmptyWindow) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).window(0); }),
            "window: `size` must be at least 1, but is 0.");
}

}  // namespace
}  // namespace torch_distinput
