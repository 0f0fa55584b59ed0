// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/spec_summary.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "distribute/coordination/flat_handshakes.h"
#include "support/random_trees.h"

namespace torch_distinput {
namespace {

SpecPtr of_leaves(std::vector<LeafSpec> leaves) {
  std::vector<StructurePtr> parts(leaves.size(), Structure::leaf());
  return std::make_shared<const ElementSpec>(
      ElementSpec{Structure::tuple(std::move(parts)), std::move(leaves)});
}

SpecPtr one_leaf(LeafSpec leaf) { return of_leaves({std::move(leaf)}); }

const Dims& expected_dims_of(const SpecPtr& spec) {
  return std::get<TensorSpec>(spec->leaves.at(0)).expected;
}

std::string encoded(const SpecSummary& summary) {
  PeerTextWriter text;
  summary.encode(text);
  return text.take();
}

SpecSummary decoded(const std::string& text) {
  PeerTextReader reader(text, "text");
  SpecSummary summary = SpecSummary::decode(reader, 100);
  reader.end();
  return summary;
}

std::string join_specs(const std::vector<std::string>& texts) {
  SpecSummary joined;
  for (const std::string& text : texts) joined.join(decoded(text));
  return encoded(joined);
}

std::vector<std::string> texts_of(const std::vector<SpecPtr>& of_ranks) {
  std::vector<std::string> texts;
  for (const SpecPtr& spec : of_ranks)
    texts.push_back(encoded(SpecSummary::of(static_cast<int>(texts.size()), spec)));
  return texts;
}

SpecPtr complete(const SpecPtr& own, const std::vector<SpecPtr>& of_ranks) {
  return decoded(join_specs(texts_of(of_ranks))).complete(own);
}

TEST(SpecSummary, TheLowestRankThatKnowsTheSpecDecides) {
  const SpecPtr known = one_leaf(TensorSpec{Dims{kUnknownDim}, c10::ScalarType::Int, {}});
  const SpecPtr other = one_leaf(TensorSpec{Dims{kUnknownDim}, c10::ScalarType::Float, {}});
  EXPECT_EQ(*complete(nullptr, {nullptr, known, other}), *known);
  EXPECT_EQ(complete(nullptr, {nullptr, nullptr}), nullptr);
  EXPECT_EQ(*complete(other, {nullptr, known}), *other);
}

TEST(SpecSummary, OnlyUnknownDimsAreLearned) {
  const auto type = c10::ScalarType::Float;
  const SpecPtr probed = one_leaf(TensorSpec{Dims{kUnknownDim, kUnknownDim}, type, {2, 5}});
  const SpecPtr open = one_leaf(TensorSpec{Dims{kUnknownDim, kUnknownDim}, type, {}});
  EXPECT_EQ(expected_dims_of(complete(open, {open, probed})), (Dims{2, 5}));
  const SpecPtr rankless = one_leaf(TensorSpec{std::nullopt, type, {}});
  EXPECT_EQ(expected_dims_of(complete(rankless, {probed})), (Dims{2, 5}));
  const SpecPtr own = one_leaf(TensorSpec{Dims{kUnknownDim, kUnknownDim}, type, {1, 9}});
  EXPECT_EQ(expected_dims_of(complete(own, {probed, own})), (Dims{1, 9}));
  const SpecPtr declared = one_leaf(TensorSpec{Dims{4, 7}, type, {}});
  EXPECT_EQ(expected_dims_of(complete(declared, {probed})), Dims{});
  const SpecPtr vector = one_leaf(TensorSpec{Dims{kUnknownDim}, type, {}});
  EXPECT_EQ(expected_dims_of(complete(vector, {probed})), Dims{});
}

/// Dims that are known, or not at all, or some of them; and dims that a probe saw.
LeafSpec random_leaf(std::mt19937& random) {
  const auto below = [&](std::uint32_t limit) { return static_cast<std::int64_t>(random() % limit); };
  if (below(6) == 0) return StringSpec{Dims{}, "utf-8"};
  const auto dims = [&](std::int64_t least) {
    Dims dims(static_cast<std::size_t>(1 + below(2)));
    for (auto& dim : dims) dim = least + below(4);
    return dims;
  };
  TensorSpec spec{std::nullopt, c10::ScalarType::Float, {}};
  if (below(3) > 0) spec.shape = dims(kUnknownDim);
  if (below(3) == 0) spec.expected = dims(0);
  return spec;
}

SpecPtr random_spec(std::mt19937& random) {
  if (random() % 4 == 0) return nullptr;
  std::vector<LeafSpec> leaves;
  for (auto left = random() % 4; left > 0; --left) leaves.push_back(random_leaf(random));
  return of_leaves(std::move(leaves));
}

TEST(SpecSummary, CompletesAlongAnyTreeAsAllSpecsTogetherDo) {
  std::mt19937 random(5);
  int learned = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<SpecPtr> of_ranks(1 + random() % 20);
    for (auto& spec : of_ranks) spec = random_spec(random);
    const auto all = decoded(reduce_at_random(texts_of(of_ranks), 5, join_specs, random));
    for (int i = 0; i < 4; ++i) {
      const SpecPtr own = i == 0 ? nullptr : random_spec(random);
      const SpecPtr wanted = handshake_testing::complete_flat(own, of_ranks);
      const SpecPtr completed = all.complete(own);
      ASSERT_EQ(completed == nullptr, wanted == nullptr);
      if (!wanted) continue;
      ASSERT_EQ(*completed, *wanted);
      for (std::size_t leaf = 0; leaf < wanted->leaves.size(); ++leaf) {
        const auto* const dense = std::get_if<TensorSpec>(&wanted->leaves[leaf]);
        if (dense == nullptr) continue;
        ASSERT_EQ(std::get<TensorSpec>(completed->leaves[leaf]).expected, dense->expected);
        learned += own && std::get<TensorSpec>(own->leaves[leaf]).expected != dense->expected ? 1 : 0;
      }
    }
  }
  EXPECT_GT(learned, 1000);
}

}  // namespace
}  // namespace torch_distinput
