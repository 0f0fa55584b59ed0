// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace torch_distinput {

/// The different ones of some numbers.
struct Distinct {
  std::vector<std::size_t> values;  ///< in the order in which they first come
  std::vector<std::size_t> which;   ///< of each number that was given: its place among `values`
};

/// In O(`numbers`), which is less than to sort them.
inline Distinct distinct(std::span<const std::size_t> numbers) {
  constexpr std::size_t kFree = std::numeric_limits<std::size_t>::max();
  // Multiples of the golden ratio are evenly spread over the slots, of which half stay free.
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const std::size_t slots = std::bit_ceil(2 * numbers.size() + 2);
  const int shift = 64 - std::countr_zero(slots);
  std::vector<std::size_t> places(slots, kFree);
  Distinct found;
  found.which.reserve(numbers.size());
  for (const std::size_t number : numbers) {
    std::size_t slot = number * kGolden >> shift;
    while (places[slot] != kFree && found.values[places[slot]] != number) slot = (slot + 1) % slots;
    if (places[slot] == kFree) {
      places[slot] = found.values.size();
      found.values.push_back(number);
    }
    found.which.push_back(places[slot]);
  }
  return found;
}

}  // namespace torch_distinput
