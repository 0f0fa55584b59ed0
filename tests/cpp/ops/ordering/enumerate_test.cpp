// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Enumerate, PutsTheNumberBeforeTheElement) {
  const std::vector<Values> expected = {{5, 0}, {6, 1}, {7, 2}};
  EXPECT_EQ(elements(Dataset::range(3).enumerate(5)), expected);
  EXPECT_EQ(elements(generated(3).enumerate(5)), expected);
}

TEST(Enumerate, YieldsPairs) {
  const Element first = *Dataset::range(3).enumerate().iterate().next();
  EXPECT_EQ(first.structure(), Structure::tuple({Structure::leaf(), Structure::leaf()}));
}

TEST(Enumerate, NumbersElementsAndNotRows) {
  const std::vector<Values> expected = {{0, 0, 1}, {1, 2, 3}};
  EXPECT_EQ(elements(Dataset::range(4).batch(2).enumerate()), expected);
}

TEST(Enumerate, CanBeBatchedIntoColumns) {
  const std::vector<Values> expected = {{10, 11, 0, 1}, {12, 2}};
  EXPECT_EQ(elements(Dataset::range(3).enumerate(10).batch(2)), expected);
  EXPECT_EQ(elements(generated(3).enumerate(10).batch(2)), expected);
}

TEST(Enumerate, FollowsTheOrderOfAShuffleBeforeIt) {
  for (const Values& pair : elements(Dataset::range(8).enumerate().shuffle({.seed = 1}))) {
    EXPECT_EQ(pair[0], pair[1]);
  }
}

TEST(Enumerate, StartsAnywhere) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(values(Dataset::range(1).enumerate(kMin)), Values({kMin, 0}));
}

TEST(Enumerate, KnowsItsSpecAndCardinality) {
  const Dataset dataset = Dataset::range(3).enumerate();
  EXPECT_EQ(to_string(dataset.element_spec()),
            "(TensorSpec(shape=(), dtype=torch.int64), TensorSpec(shape=(), dtype=torch.int64))");
  EXPECT_EQ(dataset.cardinality(), 3);
  EXPECT_EQ(Dataset::range(4).batch(2).enumerate().node()->batch_size(), std::nullopt);
}

TEST(Enumerate, ObeysTheLaws) {
  expect_laws(Dataset::range(6).enumerate());
  expect_laws(generated(6).enumerate(-3));
  expect_laws(Dataset::range(6).shuffle({.seed = 3}).enumerate(2).batch(4));
}

}  // namespace
}  // namespace torch_distinput
