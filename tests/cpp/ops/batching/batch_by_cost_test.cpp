// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

at::Tensor costs_of(std::vector<std::int64_t> costs) { return at::tensor(costs, at::kLong); }

/// Row i is i, `costs[i]` times.
Dataset rows_costing(const at::Tensor& costs) {
  return Dataset::range(costs.numel()).map([costs](Element x) {
    return Element(at::full({costs[scalar(x)].item<std::int64_t>()}, scalar(x), at::kLong));
  });
}

FunctionPtr length_of_row() {
  return make_function([](Element row) { return scalar(row.tensor().size(0)); }, "length");
}

TEST(BatchByCost, BatchesRowsOfSimilarCostWithinTheBudget) {
  const at::Tensor costs = costs_of({1, 2, 3, 4, 5});
  const std::vector<Values> expected{{0, 0, 0, 2, 2, 2}, {1, 1, 0, 0, 3, 3, 3, 3}, {4, 4, 4, 4, 4}};
  EXPECT_EQ(elements(rows_costing(costs).batch_by_cost(costs, 6)), expected);
  EXPECT_EQ(elements(rows_costing(costs).batch_by_cost(length_of_row(), 6)), expected);
}

TEST(BatchByCost, CostsFollowTheirRows) {
  const at::Tensor costs = costs_of({1, 9, 2, 9, 3, 9, 1, 9});
  const Dataset dataset = Dataset::range(8).shuffle({.seed = 1}).take(6).batch_by_cost(costs, 9);
  for (const Values& batch : elements(dataset))
    EXPECT_TRUE(batch.front() % 2 == 0 || batch.size() == 1)
        << "row " << batch.front() << " costs the budget";
  EXPECT_EQ(values(dataset), stream_values(dataset));
}

TEST(BatchByCost, ObeysTheLaws) {
  const at::Tensor costs = costs_of({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3});
  expect_laws(rows_costing(costs).batch_by_cost(costs, 5, {.window = 4}));
  expect_laws(rows_costing(costs).batch_by_cost(length_of_row(), 5, {.window = 4}));
  expect_laws(rows_costing(costs).shuffle({.seed = 2}).repeat(2).batch_by_cost(costs, 5, {.window = 7}));
}

TEST(BatchByCost, NamesARowOverTheBudget) {
  const Dataset dataset = Dataset::range(2).batch_by_cost(costs_of({1, 7}), 5);
  EXPECT_EQ(message_of<c10::ValueError>([&] { values(dataset); }),
            "batch_by_cost: row 1 costs 7, which is more than `budget`, 5.");
}

TEST(BatchByCost, HasNoLengthAndNoSingleSize) {
  const Dataset dataset = Dataset::range(2).batch_by_cost(costs_of({1, 7}), 9);
  EXPECT_EQ(dataset.cardinality(), kUnknownCardinality);
  EXPECT_EQ(dataset.node()->batch_size(), std::nullopt);
  EXPECT_FALSE(dataset.node()->traits().sharding.pass_through);
}

}  // namespace
}  // namespace torch_distinput
