// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

at::Tensor indices(std::vector<std::int64_t> values) { return at::tensor(values, at::kLong); }

TEST(Select, YieldsTheElementsAtTheIndicesAsOftenAsTheyOccur) {
  EXPECT_EQ(values(Dataset::range(10, 20).select(indices({3, 0, 3, 9}))), Values({13, 10, 13, 19}));
  EXPECT_EQ(values(generated(10).select(indices({3, 0, 3}))), Values({3, 0, 3}));
  EXPECT_EQ(values(Dataset::range(5).select(indices({}))), Values());
}

TEST(Select, KeepsTheIndicesThatItChecked) {
  const at::Tensor chosen = indices({3, 0, 3});
  const Dataset dataset = Dataset::range(10, 20).select(chosen);
  chosen.fill_(5);
  EXPECT_EQ(values(dataset), Values({13, 10, 13}));
}

TEST(Select, KnowsItsLength) {
  EXPECT_EQ(Dataset::range(10).select(indices({1, 1, 1})).cardinality(), 3);
  EXPECT_EQ(generated(10).select(indices({1, 2})).cardinality(), 2);
}

TEST(Select, RefusesBadIndices) {
  EXPECT_EQ(message_of<c10::IndexError>([] { Dataset::range(3).select(indices({0, 3})); }),
            "select: `indices` must be below 3, the number of elements, but has 3.");
  EXPECT_EQ(message_of<c10::IndexError>([] { Dataset::range(3).select(indices({-1})); }),
            "select: `indices` must be at least 0, but has -1.");
  EXPECT_EQ(message_of<c10::IndexError>([] { generated(3).select(indices({4})).iterate().next(); }),
            "select: `indices` has 4, but the dataset has only 3 elements.");
  EXPECT_TRUE(has(message_of<c10::TypeError>([] { Dataset::range(3).select(at::tensor({0.5})); }), "int64"));
}

TEST(Select, WithOtherIndicesIsAnotherPipeline) {
  const Dataset one = Dataset::range(9).select(indices({1, 2}));
  const Dataset other = Dataset::range(9).select(indices({2, 1}));
  EXPECT_THROW(other.iterate().load(one.iterate().save()), c10::ValueError);
}

TEST(Select, ObeysTheLaws) {
  expect_laws(Dataset::range(30).select(indices({5, 4, 29, 0, 0, 17})).shuffle({.seed = 3}).batch(2));
  expect_laws(generated(12).select(indices({5, 4, 11, 0, 0})));
  expect_laws(Dataset::range(30).batch(4).select(indices({7, 0, 2})));
}

}  // namespace
}  // namespace torch_distinput
