// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// Row i is 0, 1, ... i mod 3.
Dataset counting_rows(std::int64_t count) {
  return Dataset::range(count).map(
      [](Element x) { return Element(at::arange(scalar(x) % 3 + 1, at::kLong)); });
}

PaddedShapes shape(std::optional<Dims> dims) { return {nullptr, {std::move(dims)}}; }

TEST(PaddedBatch, PadsToTheLongestRowOfTheBatch) {
  EXPECT_EQ(elements(counting_rows(5).padded_batch(2)),
            (std::vector<Values>{{0, 0, 0, 1}, {0, 1, 2, 0, 0, 0}, {0, 1}}));
  EXPECT_EQ(elements(counting_rows(5).padded_batch(2, {.drop_remainder = true})).size(), 2U);
}

TEST(PaddedBatch, PadsToADeclaredShapeWithAValue) {
  const PaddedBatchOptions options{.padded_shapes = shape(Dims{4}), .padding_values = scalar(-1)};
  EXPECT_EQ(elements(counting_rows(2).padded_batch(2, options)),
            (std::vector<Values>{{0, -1, -1, -1, 0, 1, -1, -1}}));
}

TEST(PaddedBatch, KnowsItsSpec) {
  const auto spec = [](const Dataset& dataset) { return to_string(dataset.element_spec()); };
  EXPECT_EQ(spec(counting_rows(3).padded_batch(2)), "TensorSpec(shape=(None, None), dtype=torch.int64)");
  EXPECT_EQ(spec(counting_rows(3).padded_batch(2, {.padded_shapes = shape(Dims{4})})),
            "TensorSpec(shape=(None, 4), dtype=torch.int64)");
  const Dataset slices = Dataset::from_tensor_slices(Element(at::zeros({6, 2})));
  EXPECT_EQ(spec(slices.padded_batch(3, {.drop_remainder = true})),
            "TensorSpec(shape=(3, 2), dtype=torch.float32)");
  EXPECT_EQ(spec(slices.padded_batch(3, {.padded_shapes = shape(Dims{kUnknownDim})})),
            "TensorSpec(shape=(None, None), dtype=torch.float32)");
}

TEST(PaddedBatch, IsABatchForInferenceAndSharding) {
  const Dataset dataset = counting_rows(7).padded_batch(3);
  EXPECT_EQ(dataset.node()->batch_size(), 3);
  EXPECT_EQ(dataset.cardinality(), 3);
  EXPECT_TRUE(dataset.node()->traits().sharding.pass_through);
  const PlanPtr plan = plan_of(dataset);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->rows(2), 1);
  EXPECT_EQ(plan->rows_before(2), 6);
}

TEST(PaddedBatch, GivesPartsOfABatchTheLengthOfTheWholeBatch) {
  const PlanPtr plan = plan_of(counting_rows(6).padded_batch(3));
  const Segment first{0, 0, 1};
  EXPECT_EQ(items(plan->take_rows({&first, 1})), (Values{0, 0, 0}));
}

TEST(PaddedBatch, ObeysTheLaws) {
  expect_laws(counting_rows(7).padded_batch(3));
  expect_laws(counting_rows(7).shuffle().padded_batch(2, {.padding_values = scalar(9)}).repeat(2));
  expect_laws(
      counting_rows(8).filter([](const Element& row) { return row.tensor().size(0) != 2; }).padded_batch(3));
}

TEST(PaddedBatch, RefusesWrongArguments) {
  EXPECT_EQ(message_of<c10::ValueError>([] { counting_rows(2).padded_batch(0); }),
            "padded_batch: `batch_size` must be at least 1, but is 0.");
  EXPECT_EQ(message_of<c10::ValueError>(
                [] { counting_rows(2).padded_batch(1, {.padded_shapes = shape(Dims{-2})}); }),
            "padded_batch: `padded_shapes` must have dims of at least 0, or None, but has -2.");
  EXPECT_EQ(message_of<c10::ValueError>(
                [] { counting_rows(2).padded_batch(1, {.padding_values = Element(at::zeros({2}))}); }),
            "padded_batch: `padding_values` must be scalars, but the element has the shape (2,).");
  EXPECT_EQ(message_of<c10::ValueError>([] {
              Dataset::range(2).padded_batch(1, {.padded_shapes = PaddedShapes{nullptr, {Dims{}, Dims{}}}});
            }),
            "padded_batch: `padded_shapes` must have the structure of the elements, *, but has 2 leaves.");
  EXPECT_EQ(message_of<c10::ValueError>(
                [] { Dataset::range(2).padded_batch(1, {.padded_shapes = shape(Dims{3})}); }),
            "padded_batch: the element has the shape (), which cannot be padded to (3,).");
}

TEST(PaddedBatch, SaysHowItPads) {
  EXPECT_EQ(counting_rows(2)
                .padded_batch(2, {.padded_shapes = shape(Dims{4}), .padding_values = scalar(7)})
                .node()
                ->describe(),
            "padded_batch(batch_size=2, drop_remainder=False, padded_shapes=(4,), padding_values=7)");
}

}  // namespace
}  // namespace torch_distinput
