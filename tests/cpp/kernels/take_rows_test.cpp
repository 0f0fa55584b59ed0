// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {
namespace {

/// Element k is [10k, 10k + 1, 10k + 2].
class ThreeRowsEach final : public Plan {
 public:
  std::int64_t size() const override { return 4; }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    for (const std::int64_t k : positions) elements.emplace_back(at::arange(10 * k, 10 * k + 3, at::kLong));
    return elements;
  }
};

TEST(PlanTakeRows, CutsAndJoinsSegmentsInOrder) {
  const ThreeRowsEach plan;
  const std::array<Segment, 4> segments{Segment{2, 1, 3}, Segment{0, 0, 1}, Segment{0, 0, 2},
                                        Segment{3, 2, 2}};
  EXPECT_EQ(op_testing::items(plan.take_rows(segments)), (op_testing::Values{21, 22, 0, 0, 1}));
}

}  // namespace
}  // namespace torch_distinput
