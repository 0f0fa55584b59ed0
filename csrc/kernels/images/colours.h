// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images/pixels.h"

namespace torch_distinput {

/// What is changed of the colours of an image.
enum class ColourChange {
  kBrightness,
  kContrast,
  kSaturation,
  kHue,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutocontrast,
  kEqualize
};

/// Whether a pixel of the result depends on other pixels of the image.
bool needs_whole(ColourChange change);

/// Returns the image with one change of its colours, as Pillow's ImageEnhance and ImageOps do it. `factor`:
/// that of ImageEnhance; of kHue the shift in turns of Pillow's HSV, of kPosterize the bits, of kSolarize the
/// threshold. Throws ImageError for an image without three channels.
Pixels change_colours(const Pixels& image, ColourChange change, double factor);

}  // namespace torch_distinput
