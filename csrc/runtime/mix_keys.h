// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Half of `mix_keys`: the finalizer of splitmix64.
inline std::uint64_t mix_bits(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// Derives a key from two. Their order matters; each bit of either changes about half of the result's bits.
inline std::uint64_t mix_keys(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  return mix_bits(mix_bits(a + kGolden) + kGolden * (b + 1));
}

}  // namespace torch_distinput
