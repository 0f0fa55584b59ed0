// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images/instructions.h"
#include "kernels/images/pixels.h"
#include "kernels/images/taps.h"

namespace torch_distinput {

/// Which sums come first: those along lines, as in Pillow, or those along columns.
enum class FirstPass { kLines, kColumns };

/// Weighted sums of pixels, along lines and along columns, each rounded to uint8. `pixels` is the part of an
/// image from pixel (`left`, `top`) on; `across` and `down` count the pixels of the whole image. REQUIRES:
/// the part holds all pixels that the taps name; `pixels` is followed by slack.
Pixels resample(const Pixels& pixels, std::int64_t left, std::int64_t top, const Taps& across,
                const Taps& down, FirstPass first_pass = FirstPass::kLines,
                Instructions instructions = Instructions::kAny);

}  // namespace torch_distinput
