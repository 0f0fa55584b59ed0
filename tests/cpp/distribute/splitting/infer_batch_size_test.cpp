// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/infer_batch_size.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

std::int64_t inferred(const Dataset& dataset) { return infer_batch_size(*dataset.node()); }

Element same(Element element) { return element; }

TEST(InferBatchSize, TakesStaticDimsFirst) {
  EXPECT_EQ(inferred(Dataset::from_tensor_slices(at::zeros({2, 5, 3}))), 5);
  EXPECT_EQ(inferred(Dataset::range(12).batch(4, {.drop_remainder = true}).map(same)), 4);
  EXPECT_EQ(inferred(Dataset::zip({Dataset::range(12).batch(4, {.drop_remainder = true}),
                                   Dataset::range(12).batch(6, {.drop_remainder = true})})),
            -1);
}

TEST(InferBatchSize, UsesTheNodesBatchSizeOtherwise) {
  const Dataset batches = Dataset::range(12).batch(4);
  EXPECT_EQ(inferred(batches), 4);
  EXPECT_EQ(inferred(batches.take(2).repeat().prefetch(1)), 4);
  EXPECT_EQ(inferred(batches.map(same)), -1);
  EXPECT_EQ(inferred(Dataset::range(12).batch(2).batch(4)), 4);
  EXPECT_EQ(inferred(batches.concatenate(Dataset::range(3).batch(5))), -1);
}

TEST(InferBatchSize, RefusesLeavesWithoutRowsByName) {
  const Dataset dataset = Dataset::zip({Dataset::range(12), Dataset::range(12).batch(4)});
  const std::string message = message_of<c10::ValueError>([&] { inferred(dataset); });
  EXPECT_TRUE(has(message, "leaf [0] has no rows"));
  EXPECT_TRUE(has(message, "Call `batch`"));
  EXPECT_FALSE(has_rows(*dataset.node()));
}

}  // namespace
}  // namespace torch_distinput
