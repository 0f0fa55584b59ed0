// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/colours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/images/blend.h"
#include "kernels/images/tables.h"
#include "kernels/images/tones.h"

namespace torch_distinput {
namespace {

using Colour = std::array<std::uint8_t, 3>;

/// ITU-R 601 luma, as in Pillow.
int luma(const std::uint8_t* pixel) {
  return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}

std::uint8_t to_byte(double value) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(value), 0, 255));
}

/// Hue, saturation and value, each in [0, 255].
Colour to_hsv(const std::uint8_t* rgb) {
  const std::uint8_t high = std::max({rgb[0], rgb[1], rgb[2]});
  const std::uint8_t low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return {0, 0, high};
  const auto range = static_cast<float>(high - low);
  const float red = static_cast<float>(high - rgb[0]) / range;
  const float green = static_cast<float>(high - rgb[1]) / range;
  const float blue = static_cast<float>(high - rgb[2]) / range;
  // Rounded to float in the places where Pillow rounds.
  float hue = 0;
  if (rgb[0] == high)
    hue = blue - green;
  else if (rgb[1] == high)
    hue = static_cast<float>(2.0 + red - blue);
  else
    hue = static_cast<float>(4.0 + green - red);
  hue = static_cast<float>(std::fmod(hue / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(high);
  return {to_byte(hue * 255.0), to_byte(saturation * 255.0), high};
}

Colour to_rgb(const Colour& hsv) {
  const auto [hue, saturation, value] = hsv;
  if (saturation == 0) return {value, value, value};
  const double sector = hue * 6.0 / 255.0;
  const auto number = static_cast<int>(std::floor(sector));
  const auto rest = static_cast<float>(sector - number);
  const auto part = static_cast<float>(saturation / 255.0);
  const auto byte = [&](double share) { return to_byte(std::round(value * (1.0 - share))); };
  const std::uint8_t p = byte(part);
  const std::uint8_t q = byte(double{part} * rest);
  const std::uint8_t t = byte(part * (1.0 - rest));
  switch (number % 6) {
    case 0:
      return {value, t, p};
    case 1:
      return {q, value, p};
    case 2:
      return {p, value, t};
    case 3:
      return {p, q, value};
    case 4:
      return {t, p, value};
    default:
      return {value, p, q};
  }
}

int mean_luma(const Pixels& image) {
  std::int64_t sum = 0;
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* pixel = image.line(y);
    for (std::int64_t x = 0; x < image.width; ++x, pixel += 3) sum += luma(pixel);
  }
  return static_cast<int>(
      std::lround(static_cast<double>(sum) / static_cast<double>(image.width * image.height)));
}

/// Writes `change(pixel, to)` for each pixel.
template <class Change>
Pixels each_pixel(const Pixels& image, Change change) {
  const Pixels result = make_pixels(image.extent(), 3);
  for (std::int64_t y = 0; y < image.height; ++y) {
    const std::uint8_t* from = image.line(y);
    std::uint8_t* to = result.line(y);
    for (std::int64_t x = 0; x < image.width; ++x, from += 3, to += 3) change(from, to);
  }
  return result;
}

/// Replaces each value by its blend with one dull value.
Pixels blend_with(const Pixels& image, int dull, float factor) {
  return looked_up(image, table_of([&](int value) { return blended(dull, value, factor); }));
}

/// The rounded mean of 3 by 3 values, the middle one weighted 5 times.
int smoothed(const std::uint8_t* middle, std::int64_t stride, std::int64_t channels) {
  constexpr int kMiddle = 5, kAll = 13;
  int sum = (kMiddle - 1) * *middle;
  for (const std::int64_t line : {-stride, std::int64_t{0}, stride})
    sum += middle[line - channels] + middle[line] + middle[line + channels];
  return (2 * sum + kAll) / (2 * kAll);
}

/// Between a smoothed image (factor 0) and the image (factor 1), or beyond, as Pillow's
/// `ImageEnhance.Sharpness`.
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

}  // namespace

bool needs_whole(ColourChange change) {
  return change == ColourChange::kContrast || change == ColourChange::kSharpness ||
         change == ColourChange::kAutocontrast || change == ColourChange::kEqualize;
}

Pixels change_colours(const Pixels& image, ColourChange change, double factor) {
  if (image.channels != 3)
    throw ImageError("colours need 3 channels, but the image has " + std::to_string(image.channels));
  const auto amount = static_cast<float>(factor);
  switch (change) {
    case ColourChange::kBrightness:
      return blend_with(image, 0, amount);
    case ColourChange::kContrast:
      return blend_with(image, mean_luma(image), amount);
    case ColourChange::kSaturation:
      return each_pixel(image, [&](const std::uint8_t* from, std::uint8_t* to) {
        const int grey = luma(from);
        for (int i = 0; i < 3; ++i) to[i] = blended(grey, from[i], amount);
      });
    case ColourChange::kHue: {
      const auto shift = static_cast<std::uint8_t>(static_cast<int>(factor * 255));
      return each_pixel(image, [&](const std::uint8_t* from, std::uint8_t* to) {
        Colour hsv = to_hsv(from);
        hsv[0] = static_cast<std::uint8_t>(hsv[0] + shift);
        const Colour rgb = to_rgb(hsv);
        for (std::size_t i = 0; i < 3; ++i) to[i] = rgb[i];
      });
    }
    case ColourChange::kSharpness:
      return sharpened(image, amount);
    case ColourChange::kPosterize:
      return posterized(image, static_cast<int>(factor));
    case ColourChange::kSolarize:
      return solarized(image, factor);
    case ColourChange::kAutocontrast:
      return autocontrasted(image);
    case ColourChange::kEqualize:
      return equalized(image);
  }
  return image;
}

}  // namespace torch_distinput
