// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// The `x` elements 10 x, 10 x + 1, ...
Dataset repeated(Element x) { return Dataset::range(10 * scalar(x), 11 * scalar(x)); }

TEST(FlatMap, YieldsTheDatasetsInOrder) {
  EXPECT_EQ(values(Dataset::range(4).flat_map(repeated)), (Values{10, 20, 21, 30, 31, 32}));
}

TEST(FlatMap, SkipsEmptyDatasets) {
  const auto empty = [](Element) { return Dataset::range(0); };
  EXPECT_EQ(values(Dataset::range(5).flat_map(empty)), Values{});
  EXPECT_EQ(values(Dataset::range(0).flat_map(repeated)), Values{});
}

TEST(FlatMap, ReadsAnEndlessDataset) {
  const auto endless = [](Element x) { return Dataset::range(scalar(x), scalar(x) + 2).repeat(); };
  EXPECT_EQ(values(Dataset::range(3).flat_map(endless).take(5)), (Values{0, 1, 0, 1, 0}));
}

TEST(FlatMap, FlattensElementsThatHoldADataset) {
  const Dataset nested = Dataset::range(4).map(
      [](Element x) { return Element(Structure::leaf(), {repeated(std::move(x)).node()}); });
  EXPECT_EQ(to_string(nested.element_spec()), "DatasetSpec(unknown)");
  const auto same = make_function([](Element dataset) { return dataset; });
  EXPECT_EQ(values(nested.flat_map(same)), (Values{10, 20, 21, 30, 31, 32}));
  expect_laws(nested.flat_map(same));
}

TEST(FlatMap, KnowsTheRankOfItsElementsButExpectsOtherDims) {
  const Dataset rows = Dataset::range(2).flat_map(
      [](Element) { return Dataset::from_tensor_slices(Element(at::zeros({3, 2}))); });
  EXPECT_EQ(to_string(rows.element_spec()), "TensorSpec(shape=(None,), dtype=torch.float32)");
  EXPECT_EQ(std::get<TensorSpec>(rows.element_spec().leaves.front()).expected, Dims{2});
  EXPECT_EQ(rows.cardinality(), kUnknownCardinality);
  EXPECT_EQ(rows.batch(2).flat_map([](Element) { return Dataset::range(2).batch(2); }).node()->batch_size(),
            std::nullopt);
}

TEST(FlatMap, RefusesAFunctionThatReturnsNoDataset) {
  const auto wrong = make_function([](Element x) { return x; }, "wrong");
  EXPECT_EQ(message_of<c10::TypeError>([&] { values(Dataset::range(2).flat_map(wrong)); }),
            "flat_map(wrong): element 0: the function must return a Dataset, but returned "
            "TensorSpec(shape=(), dtype=torch.int64).");
  EXPECT_EQ(message_of<c10::ValueError>([&] { Dataset::range(2).flat_map(FunctionPtr()); }),
            "flat_map: `function` must not be null.");
}

TEST(FlatMap, RefusesDatasetsOfDifferentTypes) {
  const auto changing = [](Element x) {
    return scalar(x) == 0 ? Dataset::range(2) : Dataset::from_tensors(Element(at::zeros({})));
  };
  EXPECT_EQ(message_of<c10::ValueError>([&] { values(Dataset::range(2).flat_map(changing)); }),
            "flat_map(function): the dataset of element 1: element 0: the element: expected "
            "TensorSpec(shape=None, dtype=torch.int64), got TensorSpec(shape=(), dtype=torch.float32).");
}

TEST(FlatMap, SkipsElementsWhoseFunctionFails) {
  const auto fails = [](Element x) {
    TORCH_CHECK(scalar(x) != 1, "bad");
    return repeated(std::move(x));
  };
  const Dataset dataset = Dataset::range(4).flat_map(fails).with_options(skipping());
  EXPECT_EQ(values(dataset), (Values{20, 21, 30, 31, 32}));
  expect_laws(dataset);
}

TEST(FlatMap, ObeysTheLaws) {
  expect_laws(Dataset::range(5).flat_map(repeated));
  expect_laws(generated(5).flat_map(repeated).batch(3));
  expect_laws(Dataset::range(6).shuffle().flat_map(
      [](Element x) { return Dataset::range(2 * scalar(x), 3 * scalar(x)).shuffle(); }));
}

TEST(FlatMap, ShufflesEachOfItsDatasetsDifferently) {
  const Dataset dataset = Dataset::range(2).flat_map([](Element) { return Dataset::range(20).shuffle(); });
  const Values all = values(dataset);
  const Values first(all.begin(), all.begin() + 20);
  const Values second(all.begin() + 20, all.end());
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), numbers(0, 20));
}

}  // namespace
}  // namespace torch_distinput
