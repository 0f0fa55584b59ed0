// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/affine.h"

#include <cmath>
#include <cstring>
#include <numbers>

namespace torch_distinput {
namespace {

constexpr double kUnit = 65536;

/// In units of 1 / 65536, as Pillow counts.
std::int64_t fixed(double number) { return static_cast<std::int64_t>(std::floor(number * kUnit + 0.5)); }

/// Pillow rounds the sine and cosine of a rotation to 15 digits.
double rounded(double number) {
  constexpr double kDigits = 1e15;
  return std::nearbyint(number * kDigits) / kDigits;
}

}  // namespace

AffineMap shear_across(double factor) { return {{1, -factor, 0, 0, 1, 0}}; }
AffineMap shear_down(double factor) { return {{1, 0, 0, -factor, 1, 0}}; }
AffineMap shift(double right, double down) { return {{1, 0, -right, 0, 1, -down}}; }

AffineMap rotation(double degrees, Extent extent) {
  const double angle = -degrees * std::numbers::pi / 180;
  const double cosine = rounded(std::cos(angle)), sine = rounded(std::sin(angle));
  const double x = static_cast<double>(extent.width) / 2, y = static_cast<double>(extent.height) / 2;
  return {{cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y}};
}

Pixels mapped(const Pixels& image, const AffineMap& map) {
  const auto& [a, b, c, d, e, f] = map.numbers;
  const Pixels result = make_pixels(image.extent(), image.channels);
  const std::int64_t right_x = fixed(a), down_x = fixed(b), right_y = fixed(d), down_y = fixed(e);
  // The middle of the first pixel of a line.
  std::int64_t line_x = fixed(c + a * 0.5 + b * 0.5), line_y = fixed(f + d * 0.5 + e * 0.5);
  for (std::int64_t y = 0; y < result.height; ++y, line_x += down_x, line_y += down_y) {
    std::uint8_t* to = result.line(y);
    std::memset(to, 0, static_cast<std::size_t>(result.width * result.channels));
    std::int64_t from_x = line_x, from_y = line_y;
    for (std::int64_t x = 0; x < result.width; ++x, from_x += right_x, from_y += right_y) {
      const std::int64_t column = from_x >> 16, line = from_y >> 16;
      if (column >= 0 && column < image.width && line >= 0 && line < image.height)
        copy_pixel(image.line(line) + column * image.channels, to, image.channels);
      to += image.channels;
    }
  }
  return result;
}

}  // namespace torch_distinput
