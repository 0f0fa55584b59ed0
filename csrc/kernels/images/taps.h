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
};

/// The weights of `count` neighbouring pixels of a resized line, as 16-bit integers.
struct Taps {
  std::vector<TapRange> ranges;       ///< one for each pixel
  std::vector<std::int16_t> weights;  ///< `stride` for each pixel, the surplus ones 0
  std::int64_t stride = 0;            ///< a multiple of 4
  int precision = 0;                  ///< weights add up to about 2^precision

  /// The first pixel that any sum needs, and the one after the last.
  std::int64_t begin() const;
  std::int64_t end() const;
};

/// One dim of a resize: the input's [from, to) becomes `size` pixels.
struct ResizedDim {
  double from;
  double to;
  std::int64_t lowest;  ///< pixels of the input that may be used: [lowest, highest)
  std::int64_t highest;
  std::int64_t size;
};

/// The weights of output pixels [begin, begin + count), as Pillow computes them: with `antialias`, the filter
/// becomes as wide as the factor by which the image shrinks. REQUIRES: a filter that is not kNearest, or no
/// `antialias`.
Taps make_taps(const ResizedDim& dim, std::int64_t begin, std::int64_t count, Interpolation interpolation,
               bool antialias);

}  // namespace torch_distinput
