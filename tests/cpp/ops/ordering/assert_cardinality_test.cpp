// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(AssertCardinality, HasTheGivenCardinality) {
  EXPECT_EQ(generated(5).assert_cardinality(5).cardinality(), 5);
  EXPECT_EQ(values(generated(5).assert_cardinality(5)), numbers(0, 5));
}

TEST(AssertCardinality, KeepsAPlanOfThatSize) {
  EXPECT_NE(plan_of(Dataset::range(5).assert_cardinality(5)), nullptr);
  EXPECT_NE(plan_of(Dataset::range(5).repeat().assert_cardinality(kInfiniteCardinality)), nullptr);
  EXPECT_EQ(plan_of(Dataset::range(5).assert_cardinality(4)), nullptr);
}

TEST(AssertCardinality, ThrowsAtTheElementWhereTheDataDiffers) {
  const auto message = [](const Dataset& dataset) {
    return message_of<FailedPreconditionError>([&] { values(dataset); });
  };
  EXPECT_EQ(message(Dataset::range(3).assert_cardinality(2)),
            "assert_cardinality: the dataset must have 2 elements, but has at least 3.");
  EXPECT_EQ(message(generated(3).assert_cardinality(4)),
            "assert_cardinality: the dataset must have 4 elements, but has only 3.");
  EXPECT_EQ(message(generated(3).assert_cardinality(kInfiniteCardinality)),
            "assert_cardinality: the dataset must have an infinite number of elements, but has only 3.");
}

TEST(AssertCardinality, IsTransparentToInferenceAndLeftOutWhenFilesAreSharded) {
  const Dataset dataset = Dataset::range(6).batch(2).assert_cardinality(3);
  EXPECT_EQ(dataset.node()->batch_size(), 2);
  EXPECT_TRUE(dataset.node()->traits().sharding.pass_through);
  EXPECT_TRUE(dataset.node()->traits().sharding.asserts_size);
}

TEST(AssertCardinality, ObeysTheLaws) {
  expect_laws(Dataset::range(5).assert_cardinality(5));
  expect_laws(generated(5).assert_cardinality(5).batch(2));
}

TEST(AssertCardinality, RefusesANumberBelowInfinite) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).assert_cardinality(-2); }),
            "assert_cardinality: `cardinality` must be at least 0, or -1 for infinite, but is -2.");
}

}  // namespace
}  // namespace torch_distinput
