// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "torch_distinput/images.h"

namespace torch_distinput {

/// The pixels of a line that one pixel of a resized line is the weighted sum of.
struct TapRange {
  std::int64_t first;
  std::int64_t count;

  std::int64_t end() const { return first + count; }
};

/// The weights of `count` neighbouring pixels of a resized line, as 16-bit integers.
struct Taps {
  std::vector<TapRange> ranges;       ///< one for each pixel; firsts and ends never decrease
  std::vector<std::int16_t> weights;  ///< `stride` for each pixel, the surplus ones 0
  std::int64_t stride = 0;            ///< a multiple of 4
  std::int64_t most = 0;              ///< the largest count
  int precision = 0;                  ///< weights add up to about 2^precision

  /// The first pixel that any sum needs, and the one after the last.
  std::int64_t begin() const { return ranges.front().first; }
  std::int64_t end() const { return ranges.back().end(); }
  const std::int16_t* weights_of(std::size_t pixel) const {
    return weights.data() + static_cast<std::int64_t>(pixel) * stride;
  }
};

/// One dim of a resize: the input's [from, to) becomes `size` pixels. With `antialias`, the filter becomes as
/// wide as the factor by which the image shrinks. REQUIRES: a filter that is not kNearest, or no `antialias`.
struct ResizedDim {
  double from;
  double to;
  std::int64_t lowest;  ///< pixels of the input that may be used: [lowest, highest)
  std::int64_t highest;
  std::int64_t size;
  Interpolation interpolation;
  bool antialias;

  /// The pixels of the input that output pixels [begin, begin + count) need.
  TapRange needed(std::int64_t begin, std::int64_t count) const;
};

/// The weights of output pixels [begin, begin + count), as Pillow computes them. They are rounded alike,
/// whatever part of the line is wanted, to as many bits as the largest one leaves.
Taps make_taps(const ResizedDim& dim, std::int64_t begin, std::int64_t count);

/// Fractional bits of the weights of `make_few_taps`.
inline constexpr int kFewTapsPrecision = 15;

/// As `make_taps`, with weights of `kFewTapsPrecision` bits. REQUIRES: a filter without negative weights.
Taps make_few_taps(const ResizedDim& dim, std::int64_t begin, std::int64_t count);

}  // namespace torch_distinput
