// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/resample.h"

#include <algorithm>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#define TDI_RESAMPLE_AVX2 __attribute__((target("avx2")))
#endif

namespace torch_distinput {
namespace {

constexpr std::int64_t kColours = 3;
/// Weights that one vector holds for each colour.
constexpr std::int64_t kTapsAtOnce = 4;

std::uint8_t rounded(std::int32_t sum, int precision) {
  return static_cast<std::uint8_t>(std::clamp((sum + (1 << precision >> 1)) >> precision, 0, 255));
}

void across_line(const std::uint8_t* from, std::uint8_t* to, std::int64_t channels, std::int64_t left,
                 const Taps& taps) {
  const std::int16_t* weights = taps.weights.data();
  for (const TapRange& range : taps.ranges) {
    const std::uint8_t* const pixel = from + (range.first - left) * channels;
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      std::int32_t sum = 0;
      for (std::int64_t i = 0; i < range.count; ++i) sum += pixel[i * channels + channel] * weights[i];
      *to++ = rounded(sum, taps.precision);
    }
    weights += taps.stride;
  }
}

void down_columns(const std::uint8_t* from, std::int64_t stride, const TapRange& range,
                  const std::int16_t* weights, int precision, std::uint8_t* to, std::int64_t bytes) {
  for (std::int64_t x = 0; x < bytes; ++x) {
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < range.count; ++i) sum += from[i * stride + x] * weights[i];
    to[x] = rounded(sum, precision);
  }
}

#if defined(__x86_64__)

/// The weights in the order in which `across_colours` multiplies: for each four taps the first two, four
/// times, and then the others, four times.
std::vector<std::int16_t> repeated_weights(const Taps& taps) {
  std::vector<std::int16_t> repeated;
  repeated.reserve(taps.weights.size() * 4);
  for (std::size_t i = 0; i < taps.weights.size(); i += 2) {
    for (int copy = 0; copy < 4; ++copy) {
      repeated.push_back(taps.weights[i]);
      repeated.push_back(taps.weights[i + 1]);
    }
  }
  return repeated;
}

/// `across_line` for three channels. Writes one byte more, and reads up to 16 bytes after the last pixel.
TDI_RESAMPLE_AVX2 void across_colours(const std::uint8_t* from, std::uint8_t* to, std::int64_t left,
                                      const Taps& taps, const std::int16_t* weights) {
  // Of pixels 0 and 1, then of pixels 2 and 3: pairs of red, green, blue, as 16-bit integers.
  const __m256i pairs = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                         6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m128i half = _mm_set1_epi32(1 << taps.precision >> 1);
  const __m128i shift = _mm_cvtsi32_si128(taps.precision);
  for (const TapRange& range : taps.ranges) {
    const std::uint8_t* pixel = from + (range.first - left) * kColours;
    __m256i sums = _mm256_setzero_si256();
    const std::int16_t* weight = weights;
    for (std::int64_t i = 0; i < range.count; i += kTapsAtOnce) {
      const __m256i pixels =
          _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixel)));
      const __m256i factors = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weight));
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, pairs), factors));
      pixel += kTapsAtOnce * kColours;
      weight += kTapsAtOnce * 4;
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    sum = _mm_sra_epi32(_mm_add_epi32(sum, half), shift);
    sum = _mm_packus_epi16(_mm_packs_epi32(sum, sum), sum);
    const int bytes = _mm_cvtsi128_si32(sum);
    __builtin_memcpy(to, &bytes, sizeof(bytes));
    to += kColours;
    weights += taps.stride * 4;
  }
}

/// `down_columns` for lines that are padded to 16 bytes, or followed by slack.
TDI_RESAMPLE_AVX2 void down_vectors(const std::uint8_t* from, std::int64_t stride, const TapRange& range,
                                    const std::int16_t* weights, int precision, std::uint8_t* to,
                                    std::int64_t bytes) {
  const __m256i half = _mm256_set1_epi32(1 << precision >> 1);
  const __m128i shift = _mm_cvtsi32_si128(precision);
  const __m128i zero = _mm_setzero_si128();
  for (std::int64_t x = 0; x < bytes; x += 16) {
    __m256i low = half;
    __m256i high = half;
    for (std::int64_t i = 0; i < range.count; i += 2) {
      const std::uint8_t* const line = from + i * stride + x;
      const __m128i one = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line));
      const __m128i next =
          i + 1 < range.count ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + stride)) : zero;
      std::int32_t two;
      __builtin_memcpy(&two, weights + i, sizeof(two));
      const __m256i factors = _mm256_set1_epi32(two);
      low = _mm256_add_epi32(low,
                             _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(one, next)), factors));
      high = _mm256_add_epi32(high,
                              _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(one, next)), factors));
    }
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_sra_epi32(low, shift), _mm256_sra_epi32(high, shift)), 0xd8);
    const __m128i packed =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + x), packed);
  }
}

#endif

/// The sums along lines of `pixels`, whose first pixel is pixel `left` of what `taps` counts.
Pixels resample_across(const Pixels& pixels, std::int64_t left, const Taps& taps,
                       [[maybe_unused]] Instructions instructions) {
  const Pixels result =
      make_pixels({static_cast<std::int64_t>(taps.ranges.size()), pixels.height}, pixels.channels);
#if defined(__x86_64__)
  if (use_avx2(instructions) && pixels.channels == kColours) {
    const std::vector<std::int16_t> repeated = repeated_weights(taps);
    for (std::int64_t y = 0; y < pixels.height; ++y)
      across_colours(pixels.line(y), result.line(y), left, taps, repeated.data());
    return result;
  }
#endif
  for (std::int64_t y = 0; y < pixels.height; ++y)
    across_line(pixels.line(y), result.line(y), pixels.channels, left, taps);
  return result;
}

/// The sums along columns of `pixels`, whose first line is line `top` of what `taps` counts.
Pixels resample_down(const Pixels& pixels, std::int64_t top, const Taps& taps,
                     [[maybe_unused]] Instructions instructions) {
  const auto height = static_cast<std::int64_t>(taps.ranges.size());
  const Pixels result = make_pixels({pixels.width, height}, pixels.channels);
  const std::int64_t bytes = pixels.width * pixels.channels;
#if defined(__x86_64__)
  const bool vectors = use_avx2(instructions);
#endif
  const std::int16_t* weights = taps.weights.data();
  for (std::int64_t y = 0; y < height; ++y, weights += taps.stride) {
    const TapRange& range = taps.ranges[static_cast<std::size_t>(y)];
    const std::uint8_t* const from = pixels.line(range.first - top);
#if defined(__x86_64__)
    if (vectors) {
      down_vectors(from, pixels.stride, range, weights, taps.precision, result.line(y), bytes);
      continue;
    }
#endif
    down_columns(from, pixels.stride, range, weights, taps.precision, result.line(y), bytes);
  }
  return result;
}

}  // namespace

Pixels resample(const Pixels& pixels, std::int64_t left, std::int64_t top, const Taps& across,
                const Taps& down, FirstPass first_pass, Instructions instructions) {
  if (first_pass == FirstPass::kColumns) {
    const Pixels lines = resample_down(pixels, top, down, instructions);
    return resample_across(lines, left, across, instructions);
  }
  const std::int64_t first = down.begin();
  const Pixels needed = pixels.part({0, first - top, pixels.width, down.end() - first});
  const Pixels lines = resample_across(needed, left, across, instructions);
  return resample_down(lines, first, down, instructions);
}

}  // namespace torch_distinput
