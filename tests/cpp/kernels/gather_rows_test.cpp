// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/rows.h"
#include "runtime/arena.h"
#include "runtime/mix_keys.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kRows = 200;

/// `kRows` rows of `row_bytes` random bytes each, with `gap` bytes between them.
std::string source_rows(std::int64_t row_bytes, std::int64_t gap) {
  std::string source(static_cast<std::size_t>(kRows * (row_bytes + gap)), '\0');
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<char>(mix_keys(i / static_cast<std::size_t>(row_bytes + gap), i));
  }
  return source;
}

std::vector<std::int64_t> random_positions(std::size_t count) {
  std::vector<std::int64_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = static_cast<std::int64_t>(mix_keys(7, i) % kRows);
  return positions;
}

class GatherRows : public ::testing::TestWithParam<std::int64_t> {
 protected:
  /// Gathers and compares. One byte after the end shows a copy that is too long.
  void check(const std::vector<std::int64_t>& positions, const std::vector<std::int64_t>& slots,
             std::int64_t gap) {
    const std::int64_t row_bytes = GetParam();
    const std::string source = source_rows(row_bytes, gap);
    std::string expected(positions.size() * static_cast<std::size_t>(row_bytes) + 1, '#');
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto slot = static_cast<std::size_t>(slots.empty() ? static_cast<std::int64_t>(i) : slots[i]);
      expected.replace(slot * static_cast<std::size_t>(row_bytes), static_cast<std::size_t>(row_bytes),
                       source, static_cast<std::size_t>(positions[i] * (row_bytes + gap)),
                       static_cast<std::size_t>(row_bytes));
    }
    std::string gathered(expected.size(), '#');
    gather_rows(source.data(), row_bytes + gap, positions, slots, {gathered.data(), row_bytes});
    EXPECT_EQ(gathered, expected);
  }
};

TEST_P(GatherRows, CopiesRandomRowsInOrder) { check(random_positions(100), {}, 0); }

TEST_P(GatherRows, CopiesToSlots) {
  std::vector<std::int64_t> slots(100);
  std::iota(slots.rbegin(), slots.rend(), 0);
  check(random_positions(100), slots, 0);
}

TEST_P(GatherRows, SkipsTheGapBetweenRows) { check(random_positions(50), {}, 3); }

TEST_P(GatherRows, CopiesARunOfRows) {
  const std::vector<std::int64_t> run = numbers(11, 71);
  check(run, {}, 0);
  check(run, {}, 5);
}

TEST_P(GatherRows, IsNotFooledByEndsThatLookLikeARun) {
  std::vector<std::int64_t> positions{10, 99, 12, 13};
  check(positions, {}, 0);
}

TEST_P(GatherRows, CopiesOneRowAndNone) {
  check({kRows - 1}, {}, 0);
  check({}, {}, 0);
}

INSTANTIATE_TEST_SUITE_P(RowBytes, GatherRows,
                         ::testing::Values(1, 2, 3, 4, 6, 8, 12, 16, 20, 33, 64, 80, 124, 128, 130, 512, 4096,
                                           5000));

TEST(GatherRowsOfNoBytes, WriteNothing) {
  char untouched = '#';
  const std::vector<std::int64_t> positions{0, 1};
  gather_rows(nullptr, 0, positions, {}, {&untouched, 0});
  EXPECT_EQ(untouched, '#');
}

TEST(GatherRowsWithoutStride, RepeatOneRow) {
  const std::string row = "row!";
  std::string gathered(12, '#');
  const std::vector<std::int64_t> positions{0, 1, 2};
  gather_rows(row.data(), 0, positions, {}, {gathered.data(), 4});
  EXPECT_EQ(gathered, "row!row!row!");
}

TEST(GatherRowsInAnArena, GivesTheSameBytesByAllThreads) {
  constexpr std::int64_t kBytes = 5000;
  const std::string source = source_rows(kBytes, 0);
  const std::vector<std::int64_t> positions = random_positions(2000);  // 10 MB
  std::vector<std::int64_t> backwards(positions.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  const auto arena = make_arena(3);
  for (const auto& slots : {std::vector<std::int64_t>(), backwards}) {
    const auto gather = [&] {
      std::string gathered(positions.size() * kBytes, '#');
      gather_rows(source.data(), kBytes, positions, slots, {gathered.data(), kBytes});
      return gathered;
    };
    std::promise<std::string> gathered;
    arena->submit([&] { gathered.set_value(gather()); });
    EXPECT_TRUE(gathered.get_future().get() == gather());  // to print how they differ takes minutes
  }
}

}  // namespace
}  // namespace torch_distinput
