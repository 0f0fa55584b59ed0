// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Take, YieldsTheFirstElements) { EXPECT_EQ(values(Dataset::range(10).take(3)), Values({0, 1, 2})); }

TEST(Take, YieldsAllIfTheCountExceedsTheLength) {
  EXPECT_EQ(values(Dataset::range(3).take(9)), numbers(0, 3));
}

TEST(Take, MinusOneYieldsAll) { EXPECT_EQ(values(Dataset::range(3).take(-1)), numbers(0, 3)); }

TEST(Take, WithACountOfZeroIsEmpty) { EXPECT_EQ(values(Dataset::range(3).take(0)), Values()); }

TEST(Take, ReadsNoMoreThanItYields) {
  std::int64_t calls = 0;
  const auto open = [&calls] { return [&calls]() -> std::optional<Element> { return scalar(calls++); }; };
  const Dataset endless = scalars_from(open);
  EXPECT_EQ(values(endless.take(3)), numbers(0, 3));
  EXPECT_EQ(calls, 3);
}

TEST(Take, KnowsItsCardinality) {
  EXPECT_EQ(Dataset::range(10).take(3).cardinality(), 3);
  EXPECT_EQ(Dataset::range(2).take(3).cardinality(), 2);
  EXPECT_EQ(Dataset::range(2).take(-1).cardinality(), 2);
  EXPECT_EQ(Dataset::range(2).repeat().take(3).cardinality(), 3);
  EXPECT_EQ(Dataset::range(2).repeat().take(-1).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(generated(5).take(3).cardinality(), kUnknownCardinality);
}

TEST(Take, RefusesOtherNegativeCounts) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(3).take(-2); }),
            "take: `count` must be at least 0, or -1 for all, but is -2.");
}

TEST(Take, ObeysTheLaws) {
  expect_laws(Dataset::range(10).take(4));
  expect_laws(generated(10).take(4));
  expect_laws(generated(3).take(4));
  expect_laws(Dataset::range(10).batch(3).take(2));
}

}  // namespace
}  // namespace torch_distinput
