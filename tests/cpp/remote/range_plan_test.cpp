// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/range_plan.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(PlanRequests, JoinsNeighboursAndKeepsWhatIsFarApart) {
  const std::vector<ByteRange> ranges{{1000, 100}, {0, 100}, {100, 50}, {1'000'000, 10}};
  const std::vector<ByteRange> expected{{0, 150}, {1000, 100}, {1'000'000, 10}};
  EXPECT_EQ(plan_requests(ranges, {.gap = 10}), expected);
}

TEST(PlanRequests, CutsLongRangesIntoPiecesOfOneSize) {
  const std::vector<ByteRange> ranges{{5, 25}};
  const std::vector<ByteRange> expected{{5, 9}, {14, 8}, {22, 8}};
  EXPECT_EQ(plan_requests(ranges, {.most = 10}), expected);
}

TEST(FirstBytes, AreThoseOfTheFirstRanges) {
  const std::vector<ByteRange> ranges{{100, 10}, {0, 20}, {50, 5}};
  EXPECT_EQ(first_bytes(ranges, 1000), ranges);
  EXPECT_EQ(first_bytes(ranges, 15), (std::vector<ByteRange>{{100, 10}, {0, 5}}));
  EXPECT_EQ(first_bytes(ranges, 10), (std::vector<ByteRange>{{100, 10}}));
  EXPECT_TRUE(first_bytes(ranges, 0).empty());
}

TEST(PlanRequests, CoversWhatIsAskedForOnceAndWastesLittle) {
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 2000; ++turn) {
    const RangeRules rules{.gap = random() % 20, .most = 1 + random() % 60, .most_waste = 0.2};
    std::vector<ByteRange> ranges;
    std::set<std::uint64_t> wanted;
    for (std::uint64_t i = random() % 12; i > 0; --i) {
      ranges.push_back({random() % 300, random() % 30});
      for (std::uint64_t byte = 0; byte < ranges.back().size; ++byte)
        wanted.insert(ranges.back().offset + byte);
    }
    std::uint64_t end = 0;
    std::size_t asked = 0;
    std::set<std::uint64_t> covered;
    for (const ByteRange& request : plan_requests(ranges, rules)) {
      ASSERT_GE(request.offset, end);
      ASSERT_GE(request.size, 1u);
      ASSERT_LE(request.size, rules.most);
      end = request.offset + request.size;
      asked += request.size;
      for (std::uint64_t byte = request.offset; byte < end; ++byte) covered.insert(byte);
    }
    ASSERT_TRUE(std::includes(covered.begin(), covered.end(), wanted.begin(), wanted.end()));
    ASSERT_LE(static_cast<double>(asked), 1.2 * static_cast<double>(wanted.size()) + 1e-9);
  }
}

}  // namespace
}  // namespace torch_distinput
