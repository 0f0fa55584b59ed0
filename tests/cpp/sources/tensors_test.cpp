// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Element value() {
  return Element::dict(
      {{"x", at::arange(6, at::kLong).reshape({2, 3})}, {"n", at::arange(1, at::kLong).squeeze()}});
}

TEST(FromTensors, YieldsTheValueOnce) {
  const Dataset dataset = Dataset::from_tensors(value());
  EXPECT_EQ(dataset.cardinality(), 1);
  const auto elements = collect(dataset);
  ASSERT_EQ(elements.size(), 1U);
  EXPECT_TRUE(elements[0]["x"].tensor().equal(value()["x"].tensor()));
  EXPECT_EQ(dataset.element_spec(), spec_of(value()));
}

TEST(FromTensors, YieldsMemoryThatTheUserMayWriteTo) {
  const Element original = value();
  const Dataset dataset = Dataset::from_tensors(original);
  collect(dataset)[0]["x"].tensor().zero_();
  EXPECT_EQ(original["x"].tensor().sum().item<std::int64_t>(), 15);
  EXPECT_EQ(collect(dataset)[0]["x"].tensor().sum().item<std::int64_t>(), 15);
}

TEST(FromTensors, CanBeBatched) {
  const auto batches = collect(Dataset::from_tensors(value()).batch(3));
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_EQ(batches[0]["x"].tensor().sizes(), at::IntArrayRef({1, 2, 3}));
  EXPECT_EQ(items(batches[0]["x"]), items(value()["x"]));
}

TEST(FromTensors, CarriesLeavesOfOtherKinds) {
  const Element opaque(Structure::leaf(), {Opaque{{std::make_shared<int>(3)}, {}, "int"}});
  const auto elements = collect(Dataset::from_tensors(opaque));
  ASSERT_EQ(elements.size(), 1U);
  EXPECT_EQ(std::get<Opaque>(elements[0].leaves()[0]).objects, std::get<Opaque>(opaque.leaves()[0]).objects);
}

TEST(FromTensors, RefusesTensorsOutsideHostMemory) {
  EXPECT_EQ(
      message_of<c10::TypeError>([] { Dataset::from_tensors(Element(at::empty({2}, at::kMeta))); }),
      "from_tensors: the element is on meta, but from_tensors works in host memory; move it with `.cpu()` "
      "first.");
}

TEST(FromTensors, ObeysTheLaws) { expect_laws(Dataset::from_tensors(value())); }

}  // namespace
}  // namespace torch_distinput
