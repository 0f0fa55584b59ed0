// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/sort_by_cost.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace torch_distinput {
namespace {

constexpr std::size_t kDigitBits = 8;
constexpr std::size_t kValues = std::size_t{1} << kDigitBits;
constexpr std::size_t kBits = 64;

/// A number that is smaller for larger costs: doubles of at least 0 are ordered as their bits.
std::uint64_t ordered(double cost) { return ~std::bit_cast<std::uint64_t>(cost + 0.0); }

std::size_t digit_of(std::uint64_t number, std::size_t shift) {
  return static_cast<std::size_t>(number >> shift) & (kValues - 1);
}

/// Sorts by one digit into `sorted`, which is as large; rows with equal digits keep their order.
void sort_by_digit(const std::vector<SortedRow>& rows, std::size_t shift, std::vector<SortedRow>& sorted) {
  std::array<std::uint32_t, kValues> next{};
  for (const SortedRow& row : rows) ++next[digit_of(ordered(row.cost), shift)];
  std::exclusive_scan(next.begin(), next.end(), next.begin(), 0U);
  for (const SortedRow& row : rows) sorted[next[digit_of(ordered(row.cost), shift)]++] = row;
}

}  // namespace

/// By digits, from the last to the first. Costs that are whole numbers have few digits that differ.
std::vector<SortedRow> dearest_first(std::span<const double> costs) {
  std::vector<SortedRow> rows;
  rows.reserve(costs.size());
  std::uint64_t differing = 0;
  for (const double cost : costs) {
    rows.push_back({cost, static_cast<std::int32_t>(rows.size())});
    differing |= ordered(cost) ^ ordered(costs.front());
  }
  std::vector<SortedRow> sorted(rows.size());
  for (std::size_t shift = 0; shift < kBits; shift += kDigitBits) {
    if (digit_of(differing, shift) == 0) continue;
    sort_by_digit(rows, shift, sorted);
    std::swap(rows, sorted);
  }
  return rows;
}

}  // namespace torch_distinput
