// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Concatenate, YieldsTheFirstThenTheSecond) {
  EXPECT_EQ(values(Dataset::range(3).concatenate(Dataset::range(10, 12))), Values({0, 1, 2, 10, 11}));
  EXPECT_EQ(values(generated(3).concatenate(Dataset::range(10, 12))), Values({0, 1, 2, 10, 11}));
  EXPECT_EQ(values(Dataset::range(10, 12).concatenate(generated(2))), Values({10, 11, 0, 1}));
}

TEST(Concatenate, AcceptsEmptyParts) {
  EXPECT_EQ(values(Dataset::range(0).concatenate(Dataset::range(2))), Values({0, 1}));
  EXPECT_EQ(values(Dataset::range(2).concatenate(Dataset::range(0))), Values({0, 1}));
}

TEST(Concatenate, CanBeBatchedAcrossTheBorder) {
  const std::vector<Values> expected = {{0, 1}, {2, 10}, {11}};
  EXPECT_EQ(elements(Dataset::range(3).concatenate(Dataset::range(10, 12)).batch(2)), expected);
}

TEST(Concatenate, IsMixedByAShuffleAfterIt) {
  const Dataset both = Dataset::range(20).concatenate(Dataset::range(20, 40)).shuffle({.seed = 3});
  const Values all = values(both.batch(7));
  EXPECT_EQ(sorted(all), numbers(0, 40));
  EXPECT_NE(sorted(Values(all.begin(), all.begin() + 20)), numbers(0, 20));
}

TEST(Concatenate, ShufflesPartsWithTheSameSeedAlike) {
  const Dataset part = Dataset::range(10).shuffle({.seed = 1});
  const Values all = values(part.concatenate(part));
  EXPECT_EQ(Values(all.begin(), all.begin() + 10), Values(all.begin() + 10, all.end()));
}

TEST(Concatenate, ShufflesUnseededPartsIndependently) {
  const Dataset part = Dataset::range(20).shuffle();
  const Values all = values(part.concatenate(part));
  EXPECT_NE(Values(all.begin(), all.begin() + 20), Values(all.begin() + 20, all.end()));
}

TEST(Concatenate, AddsCardinalities) {
  const Dataset three = Dataset::range(3);
  EXPECT_EQ(three.concatenate(three).cardinality(), 6);
  EXPECT_EQ(three.concatenate(three.repeat()).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(generated(3).concatenate(three).cardinality(), kUnknownCardinality);
  EXPECT_EQ(generated(3).concatenate(three.repeat()).cardinality(), kInfiniteCardinality);
}

TEST(Concatenate, HasTheBatchSizeOfBothIfEqual) {
  const Dataset rows = Dataset::range(8);
  EXPECT_EQ(rows.batch(4).concatenate(rows.batch(4)).node()->batch_size(), 4);
  EXPECT_EQ(rows.batch(4).concatenate(rows.batch(2)).node()->batch_size(), std::nullopt);
}

TEST(Concatenate, RefusesOtherTypesAndNamesBoth) {
  const Dataset floats = Dataset::from_tensor_slices(at::zeros({3}));
  const std::string message = message_of<c10::ValueError>([&] { Dataset::range(3).concatenate(floats); });
  EXPECT_TRUE(has(message, "concatenate:"));
  EXPECT_TRUE(has(message, "torch.int64"));
  EXPECT_TRUE(has(message, "torch.float32"));
}

TEST(Concatenate, RunsNoUserCodeWhenItIsBuilt) {
  std::int64_t calls = 0;
  const Dataset mapped = Dataset::range(3).map([&calls](Element element) {
    ++calls;
    return element;
  });
  mapped.concatenate(Dataset::range(3));
  EXPECT_EQ(calls, 0);
}

TEST(Concatenate, MakesDimsThatDifferUnknown) {
  const Dataset two = Dataset::from_tensor_slices(at::zeros({3, 2}));
  const Dataset five = Dataset::from_tensor_slices(at::zeros({3, 5}));
  EXPECT_EQ(to_string(two.concatenate(five).element_spec()),
            "TensorSpec(shape=(None,), dtype=torch.float32)");
}

TEST(Concatenate, CutsRowsAcrossTheBorder) {
  const PlanPtr plan = plan_of(Dataset::range(5).batch(3).concatenate(Dataset::range(10, 14).batch(3)));
  ASSERT_EQ(plan->size(), 4);
  EXPECT_EQ(plan->rows_before(2), 5);
  EXPECT_EQ(plan->rows_before(3), 8);
  const std::vector<Segment> segments = {{0, 2, 3}, {1, 0, 2}, {2, 0, 1}};
  EXPECT_EQ(items(plan->take_rows(segments)), Values({2, 3, 4, 10}));
}

TEST(Concatenate, KnowsItsRowsOnlyIfBothPartsDo) {
  const Dataset batches = Dataset::range(5).batch(3);
  EXPECT_EQ(plan_of(batches.concatenate(batches.map(same)))->rows(0), kUnknownRows);
  EXPECT_EQ(plan_of(batches.map(same).concatenate(batches))->rows(3), kUnknownRows);
}

TEST(Concatenate, ObeysTheLaws) {
  expect_laws(Dataset::range(3).concatenate(Dataset::range(10, 14)));
  expect_laws(generated(3).concatenate(generated(4)));
  expect_laws(Dataset::range(3).concatenate(generated(4)));
  expect_laws(Dataset::range(5).batch(3).concatenate(Dataset::range(4).batch(3)));
}

}  // namespace
}  // namespace torch_distinput
