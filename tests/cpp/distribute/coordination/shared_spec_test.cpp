// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/shared_spec.h"

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

SpecPtr make(StructurePtr structure, std::vector<LeafSpec> leaves) {
  return std::make_shared<const ElementSpec>(ElementSpec{std::move(structure), std::move(leaves)});
}

SpecPtr bare(LeafSpec leaf) { return make(Structure::leaf(), {std::move(leaf)}); }

TEST(SharedSpec, SurvivesEncodingWithEveryKindOfLeafAndNesting) {
  const auto leaf = Structure::leaf();
  const auto structure =
      Structure::dict({"a b\n", "", "5 c"}, {Structure::tuple({leaf, Structure::none(), leaf}),
                                             Structure::list({leaf, Structure::tuple({})}),
                                             Structure::dict({"d"}, {Structure::list({leaf, leaf})})});
  const SpecPtr spec = make(structure, {TensorSpec{Dims{kUnknownDim, 3}, c10::ScalarType::Half, {4, 3}},
                                        RaggedTensorSpec{Dims{2, kUnknownDim}, c10::ScalarType::Int, 1},
                                        SparseTensorSpec{std::nullopt, c10::ScalarType::Bool},
                                        StringSpec{Dims{}, "utf-8"}, StringSpec{Dims{7}, std::nullopt}});
  const SpecPtr back = decode_spec({encode_spec(spec), "text"});
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(*back, *spec);
  const auto& first = std::get<TensorSpec>(back->leaves[0]);
  EXPECT_EQ(first.expected, (Dims{4, 3}));
  const SpecPtr object = bare(OpaqueSpec{Dims{kUnknownDim}});
  EXPECT_EQ(*decode_spec({encode_spec(object), "text"}), *object);
}

TEST(SharedSpec, SpecsOfThisProcessOnlyAreNotSent) {
  EXPECT_EQ(encode_spec(nullptr), "");
  EXPECT_EQ(decode_spec({"", "text"}), nullptr);
  EXPECT_EQ(encode_spec(bare(DatasetSpec{})), "");
  const auto named = Structure::named_tuple("P", {"x"}, {Structure::leaf()}, std::make_shared<int>());
  EXPECT_EQ(encode_spec(make(Structure::list({named}), {TensorSpec{}})), "");
}

}  // namespace
}  // namespace torch_distinput
