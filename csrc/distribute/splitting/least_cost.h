// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace torch_distinput {

/// Whose cost is the least, among some that have one: a tournament whose inner nodes hold the lesser of their
/// two sides. A cost is compared as an integer with its owner's number in the low bits, so that a change
/// needs no branch, and its path is known before the comparisons; costs whose higher bits agree count as
/// equal, and of equal ones the first owner's is the least. One thread at a time.
class LeastCost {
 public:
  /// Of owners 0 to `count` - 1; none has a cost yet. REQUIRES: 0 < `count` <= 2^31.
  explicit LeastCost(std::size_t count)
      : leaves_(std::bit_ceil(count)), owner_bits_(leaves_ - 1), keys_(2 * leaves_, kNone) {}

  bool empty() const { return keys_[1] == kNone; }
  /// REQUIRES: not `empty()`.
  std::size_t owner() const { return static_cast<std::size_t>(keys_[1] & owner_bits_); }
  /// REQUIRES: `cost` is not NaN.
  void set(std::size_t owner, double cost) { put(owner, (ordered(cost) & ~owner_bits_) | owner); }
  void remove(std::size_t owner) { put(owner, kNone); }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  /// Ordered as the numbers themselves are.
  static std::uint64_t ordered(double cost) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    const auto bits = std::bit_cast<std::uint64_t>(cost + 0.0);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }

  void put(std::size_t owner, std::uint64_t key) {
    std::size_t node = leaves_ + owner;
    for (keys_[node] = key; node > 1; keys_[node] = key) {
      key = std::min(key, keys_[node ^ 1]);
      node /= 2;
    }
  }

  std::size_t leaves_;
  std::uint64_t owner_bits_;
  std::vector<std::uint64_t> keys_;  ///< of node 1, the root, to the leaves; children of node k: 2k, 2k + 1
};

}  // namespace torch_distinput
