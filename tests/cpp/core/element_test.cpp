// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/element.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

Element sample_element() {
  return Element::dict({{"x", at::zeros({4, 2})}, {"y", Element::tuple({at::arange(4), Element()})}});
}

TEST(Element, HoldsLeavesInDepthFirstOrder) {
  const Element element = sample_element();
  ASSERT_EQ(element.leaves().size(), 2U);
  EXPECT_EQ(element.tensor(0).dim(), 2);
  EXPECT_EQ(element.tensor(1).dim(), 1);
  EXPECT_EQ(element.structure()->str(), "{'x': *, 'y': (*, None)}");
}

TEST(Element, PartsAreReachedByKeyAndIndex) {
  const Element element = sample_element();
  EXPECT_EQ(element["x"].tensor().size(1), 2);
  EXPECT_EQ(element["y"][0].tensor().numel(), 4);
  EXPECT_TRUE(element["y"][1].leaves().empty());
  EXPECT_THROW(element["z"], c10::IndexError);
  EXPECT_THROW(element[2], c10::IndexError);
}

TEST(Element, TensorOfAStructureIsATypeError) {
  EXPECT_THROW(sample_element().tensor(), c10::TypeError);
  EXPECT_EQ(Element(at::arange(3)).tensor().numel(), 3);
}

TEST(Element, TensorOfAnotherKindOfLeafNamesThatKind) {
  const Element element(Structure::leaf(), {Opaque{{nullptr}, {}, "object"}});
  EXPECT_TRUE(has(message_of<c10::TypeError>([&] { static_cast<void>(element.tensor()); }), "opaque"));
}

TEST(Element, RowsNeedEveryLeafToAgree) {
  EXPECT_EQ(sample_element().rows(), 4);
  EXPECT_EQ(Element::tuple({at::zeros({4}), at::zeros({3})}).rows(), std::nullopt);
  EXPECT_EQ(Element::tuple({at::zeros({4}), at::zeros({})}).rows(), std::nullopt);
  EXPECT_EQ(Element().rows(), std::nullopt);
}

TEST(Element, CountsBytes) { EXPECT_EQ(sample_element().bytes(), 4 * 2 * 4 + 4 * 8); }

}  // namespace
}  // namespace torch_distinput
