// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/element_bytes.h"

#include <limits>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(ElementBytes, AreEqualForEqualValuesWhateverTheStrides) {
  const at::Tensor tensor = at::arange(6, at::kLong).reshape({2, 3});
  EXPECT_EQ(element_bytes(Element(tensor)), element_bytes(Element(tensor.t().contiguous().t())));
  const at::Tensor nan = at::full({2}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(element_bytes(Element(nan)), element_bytes(Element(nan.clone())));
}

TEST(ElementBytes, TellStructureShapeDtypeAndValueApart) {
  const Element leaf = at::zeros({4}, at::kInt);
  EXPECT_NE(element_bytes(leaf), element_bytes(Element::tuple({leaf})));
  EXPECT_NE(element_bytes(leaf), element_bytes(Element(at::zeros({2, 2}, at::kInt))));
  EXPECT_NE(element_bytes(leaf), element_bytes(Element(at::zeros({4}, at::kFloat))));
  EXPECT_NE(element_bytes(leaf), element_bytes(Element(at::full({4}, 1, at::kInt))));
}

}  // namespace
}  // namespace torch_distinput
