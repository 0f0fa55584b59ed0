// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>

#include <gtest/gtest.h>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

Element bare(Leaf leaf) { return {Structure::leaf(), {std::move(leaf)}}; }

TEST(Bytes, ASingleStringIsAllOfItsValues) {
  const Bytes single = Bytes::single("text", /*utf8=*/true);
  EXPECT_EQ(single.count(), 1);
  EXPECT_EQ(single[0], "text");
  EXPECT_EQ(bare(single).rows(), std::nullopt);
  EXPECT_EQ(bare(single).bytes(), 4);
}

TEST(Bytes, AColumnHoldsItsStringsInOrder) {
  const std::array<std::string_view, 3> strings{"a", "", "bcd"};
  const Bytes column = Bytes::column(strings);
  EXPECT_EQ(column.count(), 3);
  EXPECT_EQ(column[0], "a");
  EXPECT_EQ(column[1], "");
  EXPECT_EQ(column[2], "bcd");
  EXPECT_EQ(bare(column).rows(), 3);
}

TEST(Bytes, AnEmptyColumnHasNoRows) { EXPECT_EQ(bare(Bytes::column({})).rows(), 0); }

TEST(Bytes, TheSpecSaysTheEncoding) {
  EXPECT_EQ(to_string(spec_of(bare(Bytes::single("x", true)))), "StringSpec(shape=(), encoding='utf-8')");
  EXPECT_EQ(to_string(spec_of(bare(Bytes::single("x")))), "StringSpec(shape=(), encoding=None)");
}

TEST(Bytes, ZeroRowsKeepTheEncoding) {
  const ElementSpec spec{Structure::leaf(), {StringSpec{Dims{kUnknownDim, 2}, "utf-8"}}};
  const auto none = std::get<Bytes>(zero_rows(spec).leaves().front());
  EXPECT_TRUE(none.utf8);
  EXPECT_EQ(none.count(), 0);
  EXPECT_EQ(none.shape, (Dims{0, 2}));
}

TEST(OpaqueLeaf, ZeroRowsAreAnEmptyColumn) {
  const ElementSpec spec{Structure::leaf(), {prepend_dim(OpaqueSpec{}, kUnknownDim)}};
  EXPECT_EQ(zero_rows(spec).rows(), 0);
}

TEST(RaggedSpec, LosesItsRaggedDimWithItsRows) {
  const LeafSpec batches = RaggedTensorSpec{Dims{4, kUnknownDim, 2}, c10::ScalarType::Float, 1};
  EXPECT_EQ(to_string(drop_dim0(batches)), "TensorSpec(shape=(None, 2), dtype=torch.float32)");
}

}  // namespace
}  // namespace torch_distinput
