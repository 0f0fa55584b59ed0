// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/reduce.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Axes = std::vector<std::int64_t>;

at::Tensor floats(std::vector<double> values) { return at::tensor(values).to(at::kFloat); }

TEST(Reduce, AddsElementwise) {
  const at::Tensor sum = reduce(ReduceOp::kSum, {at::arange(4), at::arange(4, 8)});
  EXPECT_TRUE(sum.equal(at::arange(4, 12, 2)));
  EXPECT_EQ(reduce(ReduceOp::kMean, {at::arange(1, 2), at::arange(2, 3)}).item<double>(), 1.5);
}

TEST(Reduce, AMeanOverAnAxisCountsTheItemsOfEachPart) {
  EXPECT_EQ(reduce(ReduceOp::kMean, {floats({5, 6}), floats({7})}, Axes{0}).item<double>(), 6);
  EXPECT_EQ(reduce(ReduceOp::kMean, {floats({5, 6}), floats({})}, Axes{-1}).item<double>(), 5.5);
  EXPECT_TRUE(reduce(ReduceOp::kMean, {floats({}), floats({})}, Axes{0}).isnan().item<bool>());
  EXPECT_EQ(reduce(ReduceOp::kSum, {floats({}), floats({})}, Axes{0}).item<double>(), 0);
  EXPECT_EQ(reduce(ReduceOp::kMean, {at::ones({2, 3}), at::zeros({2, 3})}, Axes{0, 1}).item<double>(), 0.5);
}

TEST(Reduce, NamesWhatIsWrong) {
  EXPECT_TRUE(
      has(message_of<InvalidArgumentError>([] { reduce(ReduceOp::kSum, {floats({1, 2}), floats({3})}); }),
          "float32[2] and replica 1 float32[1]"));
  EXPECT_THROW(reduce(ReduceOp::kSum, {floats({1})}, Axes{1}), c10::ValueError);
  EXPECT_THROW(reduce(ReduceOp::kSum, {at::ones({1, 1})}, Axes{0, -2}), c10::ValueError);
  EXPECT_THROW(reduce(ReduceOp::kSum, {at::ones({1}, at::kBool)}), InvalidArgumentError);
  EXPECT_THROW(reduce(ReduceOp::kSum, {}), InvalidArgumentError);
}

TEST(Gather, JoinsPartsOfAnyLength) {
  EXPECT_TRUE(gather({at::arange(3), at::arange(0), at::arange(3, 5)}, 0).equal(at::arange(5)));
  EXPECT_EQ(gather({at::zeros({0, 2}), at::zeros({0, 2})}, 0).sizes(), (Axes{0, 2}));
  EXPECT_EQ(gather({at::zeros({3, 2}), at::zeros({3, 1})}, -1).sizes(), (Axes{3, 3}));
  EXPECT_EQ(gather({at::zeros({3, 2}), at::zeros({1, 2})}, -2).sizes(), (Axes{4, 2}));
  const at::Tensor one = at::ones({2});
  EXPECT_TRUE(gather({one}, 7).is_same(one));
}

TEST(Gather, NamesWhatIsWrong) {
  EXPECT_TRUE(has(message_of<InvalidArgumentError>([] { gather({at::ones({1, 2}), at::ones({1, 3})}, 0); }),
                  "may differ in dimension 0 alone, but replica 0 has a float32[1, 2] and replica 1"));
  EXPECT_THROW(gather({at::ones({1}), at::ones({1})}, -2), c10::ValueError);
  EXPECT_THROW(gather({at::ones({}), at::ones({})}, 0), c10::ValueError);
  EXPECT_THROW(gather({}, 0), InvalidArgumentError);
}

}  // namespace
}  // namespace torch_distinput
