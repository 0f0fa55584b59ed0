// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/planes.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace torch_distinput {
namespace {

#if defined(__x86_64__)

/// For plane `plane`, the places of its bytes in 16-byte vector `part` of 16 pixels of three bytes; -1 where
/// another vector has the byte.
constexpr std::array<std::int8_t, 16> places(int plane, int part) {
  std::array<std::int8_t, 16> result{};
  for (int pixel = 0; pixel < 16; ++pixel) {
    const int byte = pixel * 3 + plane - part * 16;
    result[static_cast<std::size_t>(pixel)] = static_cast<std::int8_t>(byte >= 0 && byte < 16 ? byte : -1);
  }
  return result;
}

constexpr std::array<std::array<std::array<std::int8_t, 16>, 3>, 3> kPlaces{
    {{places(0, 0), places(0, 1), places(0, 2)},
     {places(1, 0), places(1, 1), places(1, 2)},
     {places(2, 0), places(2, 1), places(2, 2)}}};

__attribute__((target("ssse3"))) __m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

/// Splits whole groups of 16 pixels and returns how many pixels they are.
__attribute__((target("ssse3"))) std::int64_t split_vectors(const std::uint8_t* from, std::int64_t width,
                                                            std::uint8_t* const* to) {
  std::int64_t x = 0;
  for (; x + 16 <= width; x += 16, from += 48) {
    const __m128i parts[3] = {load(from), load(from + 16), load(from + 32)};
    for (std::size_t plane = 0; plane < 3; ++plane) {
      __m128i bytes = _mm_shuffle_epi8(parts[0], load(kPlaces[plane][0].data()));
      bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(parts[1], load(kPlaces[plane][1].data())));
      bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(parts[2], load(kPlaces[plane][2].data())));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to[plane] + x), bytes);
    }
  }
  return x;
}

bool can_split() {
  static const bool can = __builtin_cpu_supports("ssse3") != 0;
  return can;
}

#endif

void split_line(const std::uint8_t* from, std::int64_t width, std::uint8_t* const* to) {
  std::int64_t x = 0;
#if defined(__x86_64__)
  if (can_split()) x = split_vectors(from, width, to);
#endif
  for (; x < width; ++x) {
    for (std::int64_t plane = 0; plane < 3; ++plane) to[plane][x] = from[x * 3 + plane];
  }
}

}  // namespace

Pixels load_pixels(const std::uint8_t* from, ImageLayout layout, std::int64_t channels, Extent extent) {
  const Pixels pixels = make_pixels(extent, channels);
  for (std::int64_t y = 0; y < extent.height; ++y) {
    std::uint8_t* const line = pixels.line(y);
    if (layout == ImageLayout::kNhwc) {
      const auto bytes = static_cast<std::size_t>(extent.width * channels);
      std::memcpy(line, from + y * extent.width * channels, bytes);
      continue;
    }
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const std::uint8_t* const plane = from + (channel * extent.height + y) * extent.width;
      for (std::int64_t x = 0; x < extent.width; ++x) line[x * channels + channel] = plane[x];
    }
  }
  return pixels;
}

void store_pixels(const Pixels& pixels, ImageLayout layout, std::uint8_t* to) {
  const std::int64_t plane = pixels.width * pixels.height;
  for (std::int64_t y = 0; y < pixels.height; ++y) {
    const std::uint8_t* const line = pixels.line(y);
    if (layout == ImageLayout::kNhwc || pixels.channels == 1) {
      const std::int64_t bytes = pixels.width * pixels.channels;
      std::memcpy(to + y * bytes, line, static_cast<std::size_t>(bytes));
      continue;
    }
    std::uint8_t* const row = to + y * pixels.width;
    if (pixels.channels == 3) {
      std::uint8_t* const lines[3] = {row, row + plane, row + 2 * plane};
      split_line(line, pixels.width, lines);
      continue;
    }
    for (std::int64_t channel = 0; channel < pixels.channels; ++channel) {
      for (std::int64_t x = 0; x < pixels.width; ++x)
        row[channel * plane + x] = line[x * pixels.channels + channel];
    }
  }
}

}  // namespace torch_distinput
