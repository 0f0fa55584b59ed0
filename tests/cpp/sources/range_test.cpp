// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

TEST(Range, CountsToStop) {
  EXPECT_EQ(values(Dataset::range(4)), (Values{0, 1, 2, 3}));
  EXPECT_EQ(values(Dataset::range(2, 9, 3)), (Values{2, 5, 8}));
  EXPECT_EQ(values(Dataset::range(5, 0, -2)), (Values{5, 3, 1}));
  EXPECT_EQ(values(Dataset::range(3, 3)), Values{});
  EXPECT_EQ(values(Dataset::range(0, 3, -1)), Values{});
}

TEST(Range, KnowsItsLengthAtTheEndsOfInt64) {
  constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Dataset::range(0, kHigh).cardinality(), kHigh);
  EXPECT_EQ(Dataset::range(kLow, kHigh, kHigh).cardinality(), 3);
  EXPECT_EQ(Dataset::range(kHigh, kLow, kLow).cardinality(), 2);
  EXPECT_THROW(Dataset::range(kLow, kHigh), c10::ValueError);
}

TEST(Range, YieldsInt64Scalars) {
  const Dataset dataset = Dataset::range(3);
  EXPECT_EQ(to_string(dataset.element_spec()), "TensorSpec(shape=(), dtype=torch.int64)");
  const Element element = collect(dataset).front();
  EXPECT_EQ(element.tensor().dim(), 0);
  EXPECT_EQ(element.tensor().scalar_type(), at::kLong);
}

TEST(Range, RefusesAStepOfZero) {
  EXPECT_EQ(message_of<c10::ValueError>([] { Dataset::range(0, 3, 0); }), "range: `step` must not be 0.");
}

TEST(Range, ObeysTheLaws) { expect_laws(Dataset::range(1, 70, 2)); }

}  // namespace
}  // namespace torch_distinput
