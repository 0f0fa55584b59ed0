// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "kernels/images/pixels.h"

namespace torch_distinput::images_testing {

/// Random pixels, of which neighbours differ little.
inline Pixels noise(Extent extent, std::int64_t channels, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Pixels pixels = make_pixels(extent, channels);
  for (std::int64_t y = 0; y < extent.height; ++y) {
    for (std::int64_t x = 0; x < extent.width * channels; ++x)
      pixels.line(y)[x] =
          static_cast<std::uint8_t>((x * 3 + y * 5 + static_cast<std::int64_t>(random() % 90)) % 256);
  }
  return pixels;
}

/// Whether both have the same size and pixels.
inline bool equal(const Pixels& left, const Pixels& right) {
  if (left.extent() != right.extent() || left.channels != right.channels) return false;
  for (std::int64_t y = 0; y < left.height; ++y) {
    for (std::int64_t x = 0; x < left.width * left.channels; ++x) {
      if (left.line(y)[x] != right.line(y)[x]) return false;
    }
  }
  return true;
}

/// The largest difference of two values; the images have the same size.
inline int largest_difference(const Pixels& left, const Pixels& right) {
  int largest = 0;
  for (std::int64_t y = 0; y < left.height; ++y) {
    for (std::int64_t x = 0; x < left.width * left.channels; ++x)
      largest = std::max(largest, std::abs(left.line(y)[x] - right.line(y)[x]));
  }
  return largest;
}

}  // namespace torch_distinput::images_testing
