// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Dataset batches_of(std::vector<Element> batches) {
  return Dataset::from_generator(std::make_shared<fakes::Generators>(std::move(batches)), std::nullopt);
}

TEST(Unbatch, MakesElementsOfRows) {
  EXPECT_EQ(elements(Dataset::range(5).batch(2).unbatch()), (std::vector<Values>{{0}, {1}, {2}, {3}, {4}}));
}

TEST(Unbatch, DropsDimZeroOfTheSpec) {
  const Dataset rows = Dataset::from_tensor_slices(Element(at::zeros({4, 3}))).batch(2);
  EXPECT_EQ(to_string(rows.unbatch().element_spec()), "TensorSpec(shape=(3,), dtype=torch.float32)");
  EXPECT_EQ(rows.unbatch().cardinality(), kUnknownCardinality);
  EXPECT_EQ(rows.unbatch().node()->batch_size(), std::nullopt);
}

TEST(Unbatch, SkipsBatchesWithoutRows) {
  const Element none = at::zeros({0}, at::kLong);
  EXPECT_EQ(elements(batches_of({none, Element(at::arange(2, at::kLong)), none}).unbatch()),
            (std::vector<Values>{{0}, {1}}));
}

TEST(Unbatch, RefusesAScalarByNameWhenItIsBuilt) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).unbatch(); }),
            "unbatch: the element is a scalar, but must have rows along dim 0; call batch first.");
}

TEST(Unbatch, RefusesLeavesThatDisagree) {
  const Dataset dataset =
      batches_of({Element::dict({{"x", at::zeros({2})}, {"y", at::zeros({3})}})}).unbatch();
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { elements(dataset); }),
      "unbatch: all leaves must have the same number of rows, but leaf ['x'] has 2 and leaf ['y'] has 3.");
}

TEST(Unbatch, RefusesAnElementWithoutLeaves) {
  EXPECT_EQ(message_of<c10::ValueError>([&] { elements(batches_of({Element()}).unbatch()); }),
            "unbatch: an element without leaves has no rows.");
}

TEST(Unbatch, ObeysTheLaws) {
  expect_laws(Dataset::range(11).batch(4).unbatch());
  expect_laws(generated(7).batch(3).unbatch().batch(2));
}

}  // namespace
}  // namespace torch_distinput
