// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/mix_keys.h"
#include "runtime/permutation.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

std::vector<std::int64_t> order(const WindowedPermutation& permutation) {
  std::vector<std::int64_t> rows = numbers(0, permutation.size());
  permutation.apply(rows);
  return rows;
}

std::vector<std::pair<std::int64_t, std::int64_t>> shapes() {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (const std::int64_t n : {0, 1, 2, 3, 10, 64, 299, 1000}) {
    for (const std::int64_t window : {1, 2, 3, 4, 7, 16, 100, 600, 1000, 5000}) all.emplace_back(n, window);
  }
  return all;
}

TEST(WindowedPermutationTest, IsABijectionWithinItsBound) {
  for (const auto& [n, window] : shapes()) {
    const std::vector<std::int64_t> rows = order(WindowedPermutation(n, window, 9));
    for (std::int64_t p = 0; p < n; ++p) {
      ASSERT_LE(std::abs(rows[static_cast<std::size_t>(p)] - p), window + (window + 1) / 2 - 1)
          << n << " " << window;
    }
    ASSERT_EQ(sorted(rows), numbers(0, n)) << n << " " << window;
  }
}

TEST(WindowedPermutationTest, BoundIsReached) {
  constexpr std::int64_t kWindow = 5;
  std::int64_t furthest = 0;
  for (std::uint64_t key = 0; key < 200; ++key) {
    const std::vector<std::int64_t> rows = order(WindowedPermutation(100, kWindow, key));
    for (std::int64_t p = 0; p < 100; ++p) {
      furthest = std::max(furthest, std::abs(rows[static_cast<std::size_t>(p)] - p));
    }
  }
  EXPECT_EQ(furthest, kWindow + (kWindow + 1) / 2 - 1);
}

TEST(WindowedPermutationTest, WindowOfOneIsTheIdentity) {
  EXPECT_EQ(order(WindowedPermutation(50, 1, 3)), numbers(0, 50));
}

TEST(WindowedPermutationTest, RowsCrossWindowBorders) {
  const std::vector<std::int64_t> rows = order(WindowedPermutation(1000, 100, 3));
  EXPECT_GT(std::count_if(rows.begin(), rows.begin() + 100, [](std::int64_t row) { return row >= 100; }), 5);
}

TEST(WindowedPermutationTest, BatchEqualsSinglePositions) {
  std::mt19937_64 random(2);
  for (const auto& [n, window] : shapes()) {
    const WindowedPermutation permutation(n, window, 21);
    std::vector<std::int64_t> expected;
    std::vector<std::int64_t> positions = numbers(0, n);
    for (int repeat = 0; repeat < 2; ++repeat) {
      expected.clear();
      for (const std::int64_t position : positions) expected.push_back(permutation(position));
      std::vector<std::int64_t> rows = positions;
      permutation.apply(rows);
      ASSERT_EQ(rows, expected) << n << " " << window;
      std::shuffle(positions.begin(), positions.end(), random);
    }
  }
}

/// The sequential path, which learns the length only at the end: one stage, window after window.
std::vector<std::int64_t> stream_stage(const std::vector<std::int64_t>& input, int stage, std::int64_t window,
                                       std::uint64_t key) {
  const auto n = static_cast<std::int64_t>(input.size());
  std::vector<std::int64_t> output;
  for (std::int64_t begin = 0; begin < n; begin = WindowedPermutation::window_end(window, stage, begin)) {
    EXPECT_EQ(WindowedPermutation::window_begin(window, stage, begin), begin);
    const std::int64_t rows = std::min(n, WindowedPermutation::window_end(window, stage, begin)) - begin;
    const Permutation permutation(rows, WindowedPermutation::window_key(key, window, stage, begin));
    for (std::int64_t i = 0; i < rows; ++i)
      output.push_back(input[static_cast<std::size_t>(begin + permutation(i))]);
  }
  return output;
}

TEST(WindowedPermutationTest, StreamGivesTheSameOrder) {
  for (const auto& [n, window] : shapes()) {
    const std::vector<std::int64_t> first = stream_stage(numbers(0, n), 0, window, 4);
    ASSERT_EQ(stream_stage(first, 1, window, 4), order(WindowedPermutation(n, window, 4)))
        << n << " " << window;
  }
}

TEST(WindowedPermutationTest, WindowsOfBothStages) {
  using W = WindowedPermutation;
  EXPECT_EQ(W::window_begin(5, 0, 4), 0);
  EXPECT_EQ(W::window_end(5, 0, 4), 5);
  EXPECT_EQ(W::window_begin(5, 1, 1), 0);
  EXPECT_EQ(W::window_end(5, 1, 1), 2);
  EXPECT_EQ(W::window_begin(5, 1, 2), 2);
  EXPECT_EQ(W::window_end(5, 1, 6), 7);
  EXPECT_EQ(W::window_key(8, 5, 0, 12), mix_keys(8, 4));
  EXPECT_EQ(W::window_key(8, 5, 1, 12), mix_keys(8, 7));
}

TEST(WindowedPermutationTest, HugeSizes) {
  constexpr std::int64_t kRows = std::int64_t{1} << 62;
  constexpr std::int64_t kWindow = std::int64_t{1} << 61;
  const WindowedPermutation permutation(kRows, kWindow, 1);
  for (const std::int64_t position : {std::int64_t{0}, kRows / 2, kRows - 1}) {
    EXPECT_GE(permutation(position), 0);
    EXPECT_LT(permutation(position), kRows);
  }
}

TEST(WindowedPermutationTest, RefusesBadArguments) {
  EXPECT_THROW(WindowedPermutation(-1, 1, 0), std::invalid_argument);
  EXPECT_THROW(WindowedPermutation(1, 0, 0), std::invalid_argument);
}

TEST(WindowedPermutationTest, OrderOfThisVersionNeverChanges) {
  static_assert(kPermutationVersion == 1);
  EXPECT_EQ(order(WindowedPermutation(12, 4, 42)),
            (std::vector<std::int64_t>{2, 1, 4, 7, 0, 3, 6, 11, 5, 9, 10, 8}));
}

}  // namespace
}  // namespace torch_distinput
