// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/images/instructions.h"
#include "kernels/images/line_source.h"
#include "kernels/images/pixels.h"
#include "kernels/images/taps.h"

/// \file
/// Weighted sums of few pixels in 16-bit integers, for blocks of 16 lines at a time. First along columns,
/// then along lines: in between, a block is turned so that its lines stand in the items of one vector, and
/// both directions multiply whole vectors by one weight. Sums keep `kBlockFraction` fractional bits, and each
/// product loses at most half of the last one: a filter that shrinks to a ninth loses less than a tenth of a
/// grey level.

namespace torch_distinput {

inline constexpr std::int64_t kBlockLines = 16;
inline constexpr int kBlockFraction = 7;

/// Whether these functions can do this resize; `resample` does the others.
bool suits_blocks(const ResizedDim& across, const ResizedDim& down);

/// The columns of one block of lines, `kBlockLines` numbers each; adjacent channels are adjacent columns.
class BlockColumns {
 public:
  explicit BlockColumns(std::int64_t count);
  std::int16_t* column(std::int64_t x) const { return data_ + x * kBlockLines; }

 private:
  Block memory_;
  std::int16_t* data_;
};

/// Writes lines [line, line + kBlockLines) that `down` makes of `pixels`, whose first line is line `top`, in
/// the lines that `down` counts. Lines after the last one repeat it. REQUIRES: `pixels` is followed by slack.
void down_block(const Pixels& pixels, std::int64_t top, const Taps& down, std::int64_t line,
                const BlockColumns& to, Instructions instructions);

/// Resamples each line of the block by `across`. The first column of `from` is the first of `channels` of
/// pixel `left`, in the pixels that `across` counts.
void across_block(const BlockColumns& from, std::int64_t left, std::int64_t channels, const Taps& across,
                  const BlockColumns& to, Instructions instructions);

/// Rounds the block to those of lines [line, line + kBlockLines) that `to` has.
void store_block(const BlockColumns& from, std::int64_t line, const Pixels& to, Instructions instructions);

/// As `resample`, for taps of `make_few_taps`, and for lines that are read as they are needed: line 0 of
/// `lines` is line `top` of what `down` counts.
Pixels resample_blocks(LineSource& lines, std::int64_t left, std::int64_t top, const Taps& across,
                       const Taps& down, Instructions instructions = Instructions::kAny);

}  // namespace torch_distinput
