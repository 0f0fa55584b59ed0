// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/permutation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/mix_keys.h"
#include "support/numbers.h"

namespace torch_distinput {
namespace {

std::vector<std::int64_t> order(const Permutation& permutation) {
  std::vector<std::int64_t> rows = numbers(0, permutation.size());
  permutation.apply(rows);
  return rows;
}

bool is_permutation(const std::vector<std::int64_t>& rows) {
  return sorted(rows) == numbers(0, std::ssize(rows));
}

/// The distance of a chi-square sum from its expectation, in standard deviations.
double deviation(double chi_square, double degrees) {
  return (chi_square - degrees) / std::sqrt(2 * degrees);
}

TEST(MixKeysTest, OrderAndEveryBitMatter) {
  EXPECT_NE(mix_keys(1, 2), mix_keys(2, 1));
  EXPECT_NE(mix_keys(0, 0), 0u);
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 64; ++a) {
    for (std::uint64_t b = 0; b < 64; ++b) seen.insert(mix_keys(a, b));
  }
  EXPECT_EQ(seen.size(), 64u * 64u);
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t flip = std::uint64_t{1} << bit;
    EXPECT_NEAR(__builtin_popcountll(mix_keys(7, 9) ^ mix_keys(7 ^ flip, 9)), 32, 20);
    EXPECT_NEAR(__builtin_popcountll(mix_keys(7, 9) ^ mix_keys(7, 9 ^ flip)), 32, 20);
  }
}

TEST(PermutationTest, IsABijectionForEverySmallSize) {
  for (std::int64_t n = 0; n <= 300; ++n) {
    for (const std::uint64_t key : {0u, 1u, 42u})
      ASSERT_TRUE(is_permutation(order(Permutation(n, key)))) << n;
  }
}

TEST(PermutationTest, IsABijectionAroundPowersOfTwo) {
  for (int bits = 9; bits <= 16; ++bits) {
    for (const int offset : {-1, 0, 1}) {
      const std::int64_t n = (std::int64_t{1} << bits) + offset;
      ASSERT_TRUE(is_permutation(order(Permutation(n, 5)))) << n;
    }
  }
}

TEST(PermutationTest, BatchEqualsSinglePositions) {
  std::mt19937_64 random(1);
  for (const std::int64_t n :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{100}, std::int64_t{1'000'000},
        (std::int64_t{1} << 30) + 1, (std::int64_t{1} << 31) - 1, (std::int64_t{1} << 31) + 1,
        std::int64_t{1} << 32, (std::int64_t{1} << 33) + 5, std::int64_t{1} << 62}) {
    const Permutation permutation(n, 77);
    for (std::size_t count = 0; count < 40; ++count) {
      std::vector<std::int64_t> positions(count);
      for (auto& position : positions)
        position = std::uniform_int_distribution<std::int64_t>(0, n - 1)(random);
      std::vector<std::int64_t> rows = positions;
      permutation.apply(rows);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(rows[i], permutation(positions[i])) << n << " of " << count;
    }
  }
}

TEST(PermutationTest, HugeSizesStayInRangeAndApart) {
  for (const std::int64_t n :
       {(std::int64_t{1} << 32) + 1, std::int64_t{1'000'000'000'000}, std::int64_t{1} << 62}) {
    const Permutation permutation(n, 3);
    std::set<std::int64_t> rows;
    for (std::int64_t i = 0; i < 2000; ++i) {
      for (const std::int64_t position : {i, n - 1 - i}) {
        const std::int64_t row = permutation(position);
        ASSERT_GE(row, 0);
        ASSERT_LT(row, n);
        rows.insert(row);
      }
    }
    EXPECT_EQ(rows.size(), 4000u);
  }
}

TEST(PermutationTest, KeysGiveDifferentOrders) {
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t key = 0; key < 1000; ++key) orders.insert(order(Permutation(50, key)));
  EXPECT_EQ(orders.size(), 1000u);
}

TEST(PermutationTest, EveryOrderOfFewRowsIsEquallyLikely) {
  for (const std::int64_t n : {2, 3, 4, 5}) {
    const double orders = std::tgamma(static_cast<double>(n) + 1);
    const double expected = 200;
    std::vector<int> count(static_cast<std::size_t>(std::pow(n, n)), 0);
    for (std::uint64_t key = 0; key < static_cast<std::uint64_t>(orders * expected); ++key) {
      std::size_t code = 0;
      for (const std::int64_t row : order(Permutation(n, key)))
        code = code * static_cast<std::size_t>(n) + static_cast<std::size_t>(row);
      ++count[code];
    }
    double chi_square = 0;
    for (const int c : count) {
      if (c > 0) chi_square += (c - expected) * (c - expected) / expected;
    }
    EXPECT_EQ(std::count_if(count.begin(), count.end(), [](int c) { return c > 0; }),
              static_cast<std::int64_t>(orders));
    EXPECT_LT(std::abs(deviation(chi_square, orders - 1)), 4) << n;
  }
}

TEST(PermutationTest, RowsAndNeighboursLookUniform) {
  constexpr int kKeys = 4000;
  for (const std::int64_t n : {7, 16, 33, 64, 65, 100, 128}) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<int> image(size * size, 0);
    std::vector<int> step(size, 0);
    int adjacent = 0;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const std::vector<std::int64_t> rows = order(Permutation(n, key));
      for (std::size_t i = 0; i < size; ++i) ++image[i * size + static_cast<std::size_t>(rows[i])];
      for (std::size_t i = 0; i + 1 < size; ++i) {
        ++step[static_cast<std::size_t>((rows[i + 1] - rows[i] + n) % n)];
        adjacent += std::abs(rows[i + 1] - rows[i]) == 1;
      }
    }
    const auto total = [&](const std::vector<int>& counts, double expected, std::size_t from) {
      double sum = 0;
      for (std::size_t i = from; i < counts.size(); ++i)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
      return sum;
    };
    const double pairs = static_cast<double>(kKeys) * static_cast<double>(n - 1);
    const auto degrees = static_cast<double>((n - 1) * (n - 1));
    EXPECT_LT(deviation(total(image, static_cast<double>(kKeys) / static_cast<double>(n), 0), degrees), 4)
        << n;
    EXPECT_LT(deviation(total(step, pairs / static_cast<double>(n - 1), 1), static_cast<double>(n - 2)), 4)
        << n;
    const double expected_adjacent = pairs * 2 / static_cast<double>(n);
    EXPECT_LT(std::abs(adjacent - expected_adjacent), 4 * std::sqrt(expected_adjacent)) << n;
  }
}

TEST(PermutationTest, LargeDomainsLookUniform) {
  constexpr std::int64_t kRows = 1'000'000;
  constexpr std::size_t kBins = 100;
  const std::vector<std::int64_t> rows = order(Permutation(kRows, 11));
  std::vector<int> pairs(kBins * kBins, 0);
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const auto bin = [&](std::int64_t row) { return static_cast<std::size_t>(row) * kBins / kRows; };
    ++pairs[bin(rows[i]) * kBins + bin(rows[i + 1])];
  }
  double chi_square = 0;
  const double expected = static_cast<double>(kRows - 1) / (kBins * kBins);
  for (const int count : pairs) chi_square += (count - expected) * (count - expected) / expected;
  EXPECT_LT(std::abs(deviation(chi_square, kBins * kBins - 1)), 4);
}

TEST(PermutationTest, OrderOfThisVersionNeverChanges) {
  static_assert(kPermutationVersion == 1);
  EXPECT_EQ(mix_keys(1, 2), 834844254806117752u);
  EXPECT_EQ(order(Permutation(10, 42)), (std::vector<std::int64_t>{3, 4, 9, 6, 5, 2, 8, 0, 7, 1}));
  EXPECT_EQ(Permutation(1'000'000, 42)(123'456), 800'821);
  EXPECT_EQ(Permutation(std::int64_t{1} << 40, 42)(123'456), 783'119'796'557);
}

TEST(PermutationTest, RefusesBadSizes) {
  EXPECT_THROW(Permutation(-1, 0), std::invalid_argument);
  EXPECT_THROW(Permutation((std::int64_t{1} << 62) + 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace torch_distinput
