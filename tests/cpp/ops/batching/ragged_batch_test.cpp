// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "kernels/leaf_rows.h"
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using Lengths = std::vector<std::int64_t>;

/// Row i has i mod 4 items.
Dataset rows_of_lengths(std::int64_t count) {
  return Dataset::range(count).map([](const Element& row) {
    return Element(at::arange(row.tensor().item<std::int64_t>() % 4, at::kLong));
  });
}

std::vector<Lengths> lengths(const Dataset& dataset, bool stream_only) {
  std::vector<Lengths> batches;
  DatasetIterator iterator = dataset.iterate({.epoch = 0, .stream_only = stream_only});
  while (const auto batch = iterator.next()) {
    Lengths& sizes = batches.emplace_back();
    const auto& ragged = std::get<Ragged>(batch->leaves().front());
    for (std::int64_t row = 0; row < *batch->rows(); ++row) sizes.push_back(row_of(ragged, row).size(0));
  }
  return batches;
}

TEST(RaggedBatch, MakesRowsOfVaryingLengthOnBothPaths) {
  const std::vector<Lengths> wanted{{0, 1, 2}, {3, 0, 1}, {2}};
  EXPECT_EQ(lengths(rows_of_lengths(7).ragged_batch(3), false), wanted);
  EXPECT_EQ(lengths(rows_of_lengths(7).ragged_batch(3), true), wanted);
}

TEST(RaggedBatch, DropsAShortLastBatch) {
  const Dataset batches = rows_of_lengths(7).ragged_batch(3, {.drop_remainder = true});
  EXPECT_EQ(lengths(batches, false), (std::vector<Lengths>{{0, 1, 2}, {3, 0, 1}}));
  EXPECT_EQ(batches.cardinality(), 2);
  EXPECT_EQ(to_string(batches.element_spec()),
            "RaggedTensorSpec(shape=(3, None), dtype=torch.int64, ragged_rank=1)");
}

TEST(RaggedBatch, MakesRowsOfEqualLengthRaggedToo) {
  const Dataset equal = Dataset::range(4).map([](const Element&) { return Element(at::zeros({2})); });
  EXPECT_EQ(to_string(equal.ragged_batch(2).element_spec()),
            "RaggedTensorSpec(shape=(None, None), dtype=torch.float32, ragged_rank=1)");
  EXPECT_EQ(lengths(equal.ragged_batch(2), false), (std::vector<Lengths>{{2, 2}, {2, 2}}));
}

TEST(RaggedBatch, StacksRowsOfAStaticShape) {
  const Dataset fixed = Dataset::from_tensor_slices(Element(at::zeros({4, 3}))).ragged_batch(2);
  EXPECT_EQ(to_string(fixed.element_spec()), "TensorSpec(shape=(None, 3), dtype=torch.float32)");
  EXPECT_EQ(fixed.begin()->tensor().sizes(), at::IntArrayRef({2, 3}));
}

TEST(RaggedBatch, SaysHowManyRowsABatchHas) {
  EXPECT_EQ(rows_of_lengths(7).ragged_batch(3).node()->batch_size(), 3);
  EXPECT_TRUE(
      has(rows_of_lengths(7).ragged_batch(3).explain(), "ragged_batch(batch_size=3, drop_remainder=False)"));
}

TEST(RaggedBatch, RefusesASizeBelowOne) {
  EXPECT_EQ(message_of<c10::ValueError>([] { rows_of_lengths(3).ragged_batch(0); }),
            "ragged_batch: `batch_size` must be at least 1, but is 0.");
}

TEST(RaggedBatch, RebatchAndUnbatchKeepTheRows) {
  EXPECT_EQ(lengths(rows_of_lengths(7).ragged_batch(3).rebatch({2}), false),
            (std::vector<Lengths>{{0, 1}, {2, 3}, {0, 1}, {2}}));
  EXPECT_EQ(lengths(rows_of_lengths(7).ragged_batch(3).unbatch().ragged_batch(4), false),
            (std::vector<Lengths>{{0, 1, 2, 3}, {0, 1, 2}}));
}

TEST(RaggedBatch, ObeysTheLaws) {
  op_testing::expect_laws(rows_of_lengths(9).shuffle({.seed = 3}).ragged_batch(2));
}

}  // namespace
}  // namespace torch_distinput
