// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/spec.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "support/errors.h"

namespace torch_distinput {
namespace {

using c10::ScalarType;

TensorSpec tensor(std::optional<Dims> shape, ScalarType dtype = ScalarType::Float, Dims expected = {}) {
  return {std::move(shape), dtype, std::move(expected)};
}

ElementSpec bare(LeafSpec leaf) { return {Structure::leaf(), {std::move(leaf)}}; }

TEST(Spec, OfAnElementHasEveryDim) { EXPECT_EQ(spec_of(at::zeros({2, 3})), bare(tensor(Dims{2, 3}))); }

TEST(Spec, ExpectedDimsAreNotPartOfTheType) {
  EXPECT_EQ(tensor(Dims{kUnknownDim}, ScalarType::Float, {4}), tensor(Dims{kUnknownDim}));
}

TEST(Spec, Dim0) {
  EXPECT_EQ(dim0(tensor(Dims{4, 2})), 4);
  EXPECT_EQ(dim0(tensor(Dims{})), std::nullopt);
  EXPECT_EQ(dim0(tensor(std::nullopt)), kUnknownDim);
}

TEST(Spec, BatchingMovesShapeAndExpectedDimsTogether) {
  const auto batched =
      std::get<TensorSpec>(prepend_dim(tensor(Dims{kUnknownDim, 3}, ScalarType::Long, {5, 3}), 8));
  EXPECT_EQ(batched.shape, (Dims{8, kUnknownDim, 3}));
  EXPECT_EQ(batched.expected, (Dims{8, 5, 3}));
  const auto rows = std::get<TensorSpec>(drop_dim0(batched));
  EXPECT_EQ(rows.shape, (Dims{kUnknownDim, 3}));
  EXPECT_EQ(rows.expected, (Dims{5, 3}));
}

TEST(Spec, MergingKeepsWhatBothSay) {
  const auto merged = merge_specs(bare(tensor(Dims{4, 3})), bare(tensor(Dims{5, 3})), "concatenate");
  EXPECT_EQ(merged, bare(tensor(Dims{kUnknownDim, 3})));
  EXPECT_EQ(merge_specs(bare(tensor(Dims{4})), bare(tensor(Dims{4, 1})), "concatenate"),
            bare(tensor(std::nullopt)));
}

TEST(Spec, MergingDifferentTypesNamesOpAndTypes) {
  const auto message = message_of<c10::ValueError>(
      [] { merge_specs(bare(tensor(Dims{4})), bare(tensor(Dims{4}, ScalarType::Long)), "concatenate"); });
  EXPECT_TRUE(has(message, "concatenate: the element"));
  EXPECT_TRUE(has(message, "float32"));
  EXPECT_TRUE(has(message, "int64"));
}

TEST(Spec, CheckingNamesTheLeafAndBothTypes) {
  const ElementSpec spec{Structure::dict({"x", "y"}, {Structure::leaf(), Structure::leaf()}),
                         {tensor(Dims{}), tensor(Dims{3})}};
  const auto element = Element::dict({{"x", at::zeros({})}, {"y", at::zeros({4})}});
  const auto message =
      message_of<c10::ValueError>([&] { check_element(element, spec, "from_generator: element 7"); });
  EXPECT_EQ(message,
            "from_generator: element 7: leaf ['y']: expected TensorSpec(shape=(3,), dtype=torch.float32), "
            "got TensorSpec(shape=(4,), dtype=torch.float32).");
  EXPECT_TRUE(
      has(message_of<c10::ValueError>([&] { check_element(at::zeros({3}), spec, "here"); }), "structure"));
}

TEST(Spec, UnknownDimsAcceptAnySize) {
  check_element(at::zeros({4, 9}), bare(tensor(Dims{4, kUnknownDim})), "here");
  check_element(at::zeros({4, 9}), bare(tensor(std::nullopt)), "here");
}

TEST(Spec, ZeroRowsUseDeclaredThenExpectedThenZero) {
  const auto shape = [](TensorSpec spec) { return zero_rows(bare(std::move(spec))).tensor().sizes().vec(); };
  EXPECT_EQ(shape(tensor(Dims{4, 3})), (Dims{0, 3}));
  EXPECT_EQ(shape(tensor(Dims{kUnknownDim, kUnknownDim}, ScalarType::Float, {8, 5})), (Dims{0, 5}));
  EXPECT_EQ(shape(tensor(Dims{kUnknownDim, kUnknownDim})), (Dims{0, 0}));
  EXPECT_EQ(shape(tensor(std::nullopt)), (Dims{0}));
  EXPECT_EQ(zero_rows(bare(tensor(Dims{2}, ScalarType::Bool))).tensor().scalar_type(), ScalarType::Bool);
}

TEST(Spec, ZeroRowsOfOtherKinds) {
  const auto text = zero_rows(bare(StringSpec{Dims{kUnknownDim}, "utf-8"}));
  EXPECT_EQ(std::get<Bytes>(text.leaves()[0]).shape, (std::vector<std::int64_t>{0}));
  const auto ragged = zero_rows(bare(RaggedTensorSpec{Dims{kUnknownDim, kUnknownDim, 2}, ScalarType::Long}));
  EXPECT_EQ(std::get<Ragged>(ragged.leaves()[0]).values.sizes().vec(), (Dims{0, 2}));
  const auto sparse = zero_rows(bare(SparseTensorSpec{Dims{kUnknownDim, 4}, ScalarType::Long}));
  EXPECT_EQ(std::get<Sparse>(sparse.leaves()[0]).value.sizes().vec(), (Dims{0, 4}));
}

TEST(Spec, ZeroRowsOfRaggedTensorsUseExpectedDimsToo) {
  const ElementSpec ragged = bare(RaggedTensorSpec{Dims{-1, -1, -1}, ScalarType::Float, 1, Dims{2, -1, 5}});
  EXPECT_EQ(std::get<Ragged>(zero_rows(ragged).leaves().front()).values.sizes(), (Dims{0, 5}));
}

TEST(Spec, PrintsAsPythonDoes) {
  const ElementSpec spec{Structure::tuple({Structure::leaf(), Structure::none()}),
                         {tensor(Dims{kUnknownDim, 1})}};
  EXPECT_EQ(to_string(spec), "(TensorSpec(shape=(None, 1), dtype=torch.float32), None)");
}

}  // namespace
}  // namespace torch_distinput
