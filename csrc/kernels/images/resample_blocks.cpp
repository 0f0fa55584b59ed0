// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/resample_blocks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#if defined(__x86_64__)
#include <immintrin.h>
#define TDI_BLOCKS_AVX2 __attribute__((target("avx2")))
#endif

namespace torch_distinput {
namespace {

/// Columns that are turned together.
constexpr std::int64_t kTileColumns = 16;
/// Columns that are multiplied by 0 where a pixel has fewer taps than others.
constexpr std::int64_t kSlackColumns = 64;
/// How many pixels may become one.
constexpr std::int64_t kMaxShrink = 9;
/// The lines that a block may be made of: its first and last filter reach out, and weights may follow that
/// are 0.
constexpr std::int64_t kMaxSourceLines = (kBlockLines + 6) * kMaxShrink;

std::int64_t whole_tiles(std::int64_t columns) {
  return (columns + kTileColumns - 1) / kTileColumns * kTileColumns;
}

/// What one line of a block is the sum of.
struct BlockLine {
  std::int64_t first;  ///< counted from the block's first one
  const std::int16_t* weights;
};

/// The lines that a block is made of.
struct BlockSource {
  const std::uint8_t* from;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t taps;  ///< of each line; where a line has fewer, weights are 0
  std::array<BlockLine, kBlockLines> lines;
};

BlockSource source_of(const Pixels& pixels, std::int64_t top, const Taps& down, std::int64_t line) {
  BlockSource source{};
  const auto pixel = [&](std::int64_t i) {
    return static_cast<std::size_t>(std::min(line + i, static_cast<std::int64_t>(down.ranges.size()) - 1));
  };
  const std::int64_t first = down.ranges[pixel(0)].first;
  source.from = pixels.line(first - top);
  source.stride = pixels.stride;
  source.count = down.ranges[pixel(kBlockLines - 1)].end() - first;
  for (std::int64_t i = 0; i < kBlockLines; ++i) {
    const TapRange& range = down.ranges[pixel(i)];
    source.lines[static_cast<std::size_t>(i)] = {range.first - first, down.weights_of(pixel(i))};
    source.taps = std::max(source.taps, range.count);
  }
  return source;
}

/// The product of a number and a weight, rounded as processors round it.
std::int16_t product(std::int16_t number, std::int16_t weight) {
  return static_cast<std::int16_t>((number * weight + (1 << (kFewTapsPrecision - 1))) >> kFewTapsPrecision);
}

void down_portable(const BlockSource& source, std::int64_t columns, std::int16_t* to) {
  for (std::int64_t x = 0; x < columns; ++x) {
    for (const BlockLine& line : source.lines) {
      int sum = 0;
      for (std::int64_t i = 0; i < std::min(source.taps, source.count - line.first); ++i) {
        const int value = source.from[(line.first + i) * source.stride + x] << kBlockFraction;
        sum += product(static_cast<std::int16_t>(value), line.weights[i]);
      }
      *to++ = static_cast<std::int16_t>(sum);
    }
  }
}

void across_portable(const std::int16_t* from, std::int64_t count, std::int64_t channels,
                     const std::int16_t* weights, std::int16_t* to) {
  for (std::int64_t item = 0; item < channels * kBlockLines; ++item) {
    int sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sum += product(from[i * channels * kBlockLines + item], weights[i]);
    to[item] = static_cast<std::int16_t>(sum);
  }
}

void store_portable(const std::int16_t* from, std::int64_t columns, std::uint8_t* to, std::int64_t stride,
                    std::int64_t lines) {
  constexpr int kHalf = 1 << (kBlockFraction - 1);
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t x = 0; x < columns; ++x) {
      const int value = (from[x * kBlockLines + line] + kHalf) >> kBlockFraction;
      to[line * stride + x] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
    }
  }
}

#if defined(__x86_64__)

/// Writes 16 lines of 16 numbers as 16 columns.
TDI_BLOCKS_AVX2 void turn(const __m256i* lines, std::int16_t* to) {
  const auto* const halves = reinterpret_cast<const __m128i*>(lines);
  for (std::ptrdiff_t half = 0; half < 2; ++half) {
    __m256i a[8], b[8];
    for (std::ptrdiff_t i = 0; i < 8; ++i)  // lines i and i + 8, so that each lane turns 8 by 8 numbers
      a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(halves[i * 2 + half]), halves[(i + 8) * 2 + half],
                                     1);
    for (std::ptrdiff_t i = 0; i < 4; ++i) {
      b[i * 2] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
      b[i * 2 + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (std::ptrdiff_t i = 0; i < 4; ++i) {
      a[i * 2] = _mm256_unpacklo_epi16(b[i], b[i + 4]);
      a[i * 2 + 1] = _mm256_unpackhi_epi16(b[i], b[i + 4]);
    }
    for (std::ptrdiff_t i = 0; i < 4; ++i) {
      b[i * 2] = _mm256_unpacklo_epi16(a[i], a[i + 4]);
      b[i * 2 + 1] = _mm256_unpackhi_epi16(a[i], a[i + 4]);
    }
    auto* const out = reinterpret_cast<__m256i*>(to) + half * 8;
    for (std::ptrdiff_t i = 0; i < 8; ++i) _mm256_storeu_si256(out + i, b[i]);
  }
}

/// `down_portable` for sums of `kTaps` products, or (0) of as many as `source` says.
template <int kTaps>
TDI_BLOCKS_AVX2 void down_vectors(const BlockSource& source, std::int64_t columns, std::int16_t* to) {
  const std::int64_t taps = kTaps == 0 ? source.taps : kTaps;
  // Two tiles at a time, so that each weight is loaded for both. Values after the last line have weight 0.
  __m256i values[kMaxSourceLines][2];
  __m256i sums[2][kBlockLines];
  for (std::int64_t x = 0; x < columns; x += 2 * kTileColumns, to += 2 * kTileColumns * kBlockLines) {
    const std::uint8_t* line = source.from + x;
    for (std::int64_t i = 0; i < source.count; ++i, line += source.stride) {
      const __m128i* const bytes = reinterpret_cast<const __m128i*>(line);
      values[i][0] = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(bytes)), kBlockFraction);
      values[i][1] = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(bytes + 1)), kBlockFraction);
    }
    for (std::size_t i = 0; i < kBlockLines; ++i) {
      const auto* const value = values + source.lines[i].first;
      const std::int16_t* const weights = source.lines[i].weights;
      __m256i weight = _mm256_set1_epi16(weights[0]);
      __m256i left = _mm256_mulhrs_epi16(value[0][0], weight);
      __m256i right = _mm256_mulhrs_epi16(value[0][1], weight);
      for (std::int64_t tap = 1; tap < taps; ++tap) {
        weight = _mm256_set1_epi16(weights[tap]);
        left = _mm256_add_epi16(left, _mm256_mulhrs_epi16(value[tap][0], weight));
        right = _mm256_add_epi16(right, _mm256_mulhrs_epi16(value[tap][1], weight));
      }
      sums[0][i] = left;
      sums[1][i] = right;
    }
    turn(sums[0], to);
    turn(sums[1], to + kTileColumns * kBlockLines);
  }
}

void down_vectors(const BlockSource& source, std::int64_t columns, std::int16_t* to) {
  // Loops of a known length, for the factors that are frequent.
  if (source.taps <= 3) return down_vectors<3>(source, columns, to);
  if (source.taps == 4) return down_vectors<4>(source, columns, to);
  if (source.taps == 5) return down_vectors<5>(source, columns, to);
  if (source.taps == 6) return down_vectors<6>(source, columns, to);
  return down_vectors<0>(source, columns, to);
}

template <int kChannels>
TDI_BLOCKS_AVX2 void across_vectors(const std::int16_t* from, std::int64_t count, const std::int16_t* weights,
                                    std::int16_t* to) {
  const auto* column = reinterpret_cast<const __m256i*>(from);
  __m256i sums[kChannels];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < count; ++i, column += kChannels) {
    const __m256i weight = _mm256_set1_epi16(weights[i]);
    for (int channel = 0; channel < kChannels; ++channel)
      sums[channel] =
          _mm256_add_epi16(sums[channel], _mm256_mulhrs_epi16(_mm256_loadu_si256(column + channel), weight));
  }
  for (int channel = 0; channel < kChannels; ++channel)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + channel, sums[channel]);
}

template <int kDistance>
TDI_BLOCKS_AVX2 void unpack(const __m256i* in, __m256i* out) {
  for (int i = 0; i < 8; ++i) {
    if ((i & kDistance) != 0) continue;
    out[i] = _mm256_unpacklo_epi8(in[i], in[i + kDistance]);
    out[i + kDistance] = _mm256_unpackhi_epi8(in[i], in[i + kDistance]);
  }
}

/// 16 columns of 16 numbers become 16 lines of 16 bytes. Line i of the first eight, and line i + 8, are the
/// halves of vector `kOrder[i]`.
TDI_BLOCKS_AVX2 void turn_to_bytes(const std::int16_t* from, __m256i* to) {
  const __m256i unit = _mm256_set1_epi16(1 << (kFewTapsPrecision - kBlockFraction));
  const auto* const columns = reinterpret_cast<const __m256i*>(from);
  __m256i a[8], b[8];
  for (std::ptrdiff_t i = 0; i < 8; ++i)
    a[i] = _mm256_packus_epi16(_mm256_mulhrs_epi16(_mm256_loadu_si256(columns + i * 2), unit),
                               _mm256_mulhrs_epi16(_mm256_loadu_si256(columns + i * 2 + 1), unit));
  // Each step moves one bit of the line's number to the vector's number, and one of the column's number back.
  unpack<4>(a, b);
  unpack<2>(b, a);
  unpack<1>(a, b);
  unpack<4>(b, to);
}

constexpr std::array<std::size_t, 8> kOrder{0, 4, 1, 5, 2, 6, 3, 7};

TDI_BLOCKS_AVX2 void store_vectors(const std::int16_t* from, std::int64_t columns, std::uint8_t* to,
                                   std::int64_t stride, std::int64_t lines) {
  for (std::int64_t x = 0; x < columns; x += kTileColumns, from += kTileColumns * kBlockLines) {
    __m256i tile[8];
    turn_to_bytes(from, tile);
    for (std::int64_t line = 0; line < lines; ++line) {
      const __m256i both = tile[kOrder[static_cast<std::size_t>(line % 8)]];
      const __m128i one = line < 8 ? _mm256_castsi256_si128(both) : _mm256_extracti128_si256(both, 1);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + line * stride + x), one);
    }
  }
}

#endif

}  // namespace

bool suits_blocks(const ResizedDim& across, const ResizedDim& down) {
  const auto suits = [](const ResizedDim& dim) {
    return dim.interpolation == Interpolation::kBilinear &&
           dim.to - dim.from <= static_cast<double>(kMaxShrink * dim.size);
  };
  return suits(across) && suits(down);
}

BlockColumns::BlockColumns(std::int64_t count)
    : memory_(
          host_pool()->acquire(static_cast<std::size_t>((whole_tiles(count) + kSlackColumns) * kBlockLines) *
                               sizeof(std::int16_t))),
      data_(static_cast<std::int16_t*>(memory_.data())) {}

void down_block(const Pixels& pixels, std::int64_t top, const Taps& down, std::int64_t line,
                const BlockColumns& to, Instructions instructions) {
  const BlockSource source = source_of(pixels, top, down, line);
  const std::int64_t columns = pixels.width * pixels.channels;
#if defined(__x86_64__)
  if (use_avx2(instructions)) return down_vectors(source, columns, to.column(0));
#endif
  down_portable(source, columns, to.column(0));
}

void across_block(const BlockColumns& from, std::int64_t left, std::int64_t channels, const Taps& across,
                  const BlockColumns& to, Instructions instructions) {
  [[maybe_unused]] const bool vectors = use_avx2(instructions);
  for (std::size_t x = 0; x < across.ranges.size(); ++x) {
    const TapRange& range = across.ranges[x];
    const std::int16_t* const pixel = from.column((range.first - left) * channels);
    std::int16_t* const out = to.column(static_cast<std::int64_t>(x) * channels);
#if defined(__x86_64__)
    if (vectors && channels == 3) {
      across_vectors<3>(pixel, across.most, across.weights_of(x), out);
      continue;
    }
    if (vectors && channels == 1) {
      across_vectors<1>(pixel, across.most, across.weights_of(x), out);
      continue;
    }
#endif
    across_portable(pixel, range.count, channels, across.weights_of(x), out);
  }
}

void store_block(const BlockColumns& from, std::int64_t line, const Pixels& to, Instructions instructions) {
  const std::int64_t columns = to.width * to.channels;
  const std::int64_t lines = std::min(kBlockLines, to.height - line);
#if defined(__x86_64__)
  if (use_avx2(instructions)) return store_vectors(from.column(0), columns, to.line(line), to.stride, lines);
#endif
  store_portable(from.column(0), columns, to.line(line), to.stride, lines);
}

Pixels resample_blocks(LineSource& lines, std::int64_t left, std::int64_t top, const Taps& across,
                       const Taps& down, Instructions instructions) {
  const auto width = static_cast<std::int64_t>(across.ranges.size());
  const auto height = static_cast<std::int64_t>(down.ranges.size());
  Pixels result;
  std::optional<BlockColumns> tall, turned;
  for (std::int64_t line = 0; line < height; line += kBlockLines) {
    const std::int64_t last = std::min(line + kBlockLines, height) - 1;
    const std::int64_t first = down.ranges[static_cast<std::size_t>(line)].first;
    const std::int64_t end = down.ranges[static_cast<std::size_t>(last)].end();
    const Pixels pixels = lines.read(first - top, end - first);
    if (line == 0) {
      result = make_pixels({width, height}, pixels.channels);
      tall.emplace(pixels.width * pixels.channels);
      turned.emplace(width * pixels.channels);
    }
    down_block(pixels, first, down, line, *tall, instructions);
    across_block(*tall, left, pixels.channels, across, *turned, instructions);
    store_block(*turned, line, result, instructions);
  }
  return result;
}

}  // namespace torch_distinput
