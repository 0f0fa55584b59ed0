// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Dataset with_repeats() {
  return Dataset::range(12).map([](Element x) { return scalar(scalar(x) * 5 % 7 % 4); });
}

TEST(Unique, KeepsTheFirstOfEachElement) { EXPECT_EQ(values(with_repeats().unique()), (Values{0, 1, 3, 2})); }

TEST(Unique, ComparesStructuresShapesAndBytes) {
  const auto rows = Dataset::range(6).map([](Element x) {
    const std::int64_t value = scalar(x) % 3;
    return Element::tuple(
        {scalar(value), Element(at::tensor(Values(static_cast<std::size_t>(value), 0), at::kLong))});
  });
  EXPECT_EQ(elements(rows.unique()), (std::vector<Values>{{0}, {1, 0}, {2, 0, 0}}));
}

TEST(Unique, HidesTheBatchSizeAndRefusesShardingByFile) {
  const Dataset dataset = Dataset::range(6).batch(2).unique();
  EXPECT_EQ(dataset.node()->batch_size(), std::nullopt);
  EXPECT_FALSE(dataset.node()->traits().sharding.pass_through);
  EXPECT_EQ(dataset.cardinality(), kUnknownCardinality);
}

TEST(Unique, RefusesDatasets) {
  EXPECT_EQ(message_of<c10::TypeError>([] { values(Dataset::range(4).window(2).unique()); }),
            "unique: the element is a dataset leaf, which unique cannot compare; map it to a tensor first.");
}

TEST(Unique, ObeysTheLaws) {
  expect_laws(with_repeats().unique());
  expect_laws(generated(5).repeat(2).unique().batch(2));
}

}  // namespace
}  // namespace torch_distinput
