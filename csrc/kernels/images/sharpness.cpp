// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/sharpness.h"

#include <cstring>

#include "kernels/images/blend.h"

namespace torch_distinput {
namespace {

/// The rounded mean of 3 by 3 values, the middle one weighted 5 times.
int smoothed(const std::uint8_t* middle, std::int64_t stride, std::int64_t channels) {
  constexpr int kMiddle = 5, kAll = 13;
  int sum = (kMiddle - 1) * *middle;
  for (const std::int64_t line : {-stride, std::int64_t{0}, stride})
    sum += middle[line - channels] + middle[line] + middle[line + channels];
  return (2 * sum + kAll) / (2 * kAll);
}

}  // namespace

Pixels sharpened(const Pixels& image, float factor) {
  const Pixels result = make_pixels(image.extent(), image.channels);
  const std::int64_t bytes = image.width * image.channels;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* const from = image.line(y);
    std::uint8_t* const to = result.line(y);
    // The edges, which are not smoothed, stay as they are.
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    if (y == 0 || y == image.height - 1) continue;
    for (std::int64_t i = image.channels; i < bytes - image.channels; ++i)
      to[i] = blended(smoothed(from + i, image.stride, image.channels), from[i], factor);
  }
  return result;
}

}  // namespace torch_distinput
