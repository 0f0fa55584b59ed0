// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Skip, DropsTheFirstElements) { EXPECT_EQ(values(Dataset::range(5).skip(2)), numbers(2, 5)); }

TEST(Skip, WithACountOfZeroYieldsAll) { EXPECT_EQ(values(Dataset::range(5).skip(0)), numbers(0, 5)); }

TEST(Skip, IsEmptyIfTheCountExceedsTheLength) {
  EXPECT_EQ(values(Dataset::range(5).skip(9)), Values());
  EXPECT_EQ(values(generated(5).skip(9)), Values());
}

TEST(Skip, MinusOneSkipsAll) {
  EXPECT_EQ(values(Dataset::range(5).skip(-1)), Values());
  EXPECT_EQ(values(Dataset::range(5).repeat().skip(-1)), Values());
  EXPECT_EQ(values(generated(5).skip(-1)), Values());
}

TEST(Skip, OfAnEndlessDatasetIsEndless) {
  EXPECT_EQ(values(Dataset::range(3).repeat().skip(4).take(4)), Values({1, 2, 0, 1}));
}

TEST(Skip, KnowsItsCardinality) {
  EXPECT_EQ(Dataset::range(10).skip(3).cardinality(), 7);
  EXPECT_EQ(Dataset::range(2).skip(3).cardinality(), 0);
  EXPECT_EQ(Dataset::range(2).skip(-1).cardinality(), 0);
  EXPECT_EQ(Dataset::range(2).repeat().skip(3).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(generated(5).skip(3).cardinality(), kUnknownCardinality);
}

TEST(Skip, RefusesOtherNegativeCounts) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).skip(-2); }),
            "skip: `count` must be at least 0, or -1 for all, but is -2.");
}

TEST(Skip, ObeysTheLaws) {
  expect_laws(Dataset::range(10).skip(4));
  expect_laws(generated(10).skip(4));
  expect_laws(Dataset::range(10).skip(-1));
  expect_laws(Dataset::range(11).batch(3).skip(1));
}

}  // namespace
}  // namespace torch_distinput
