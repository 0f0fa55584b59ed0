// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images/pixels.h"

namespace torch_distinput {

/// What is changed of the colours of an image.
enum class ColourChange { kBrightness, kContrast, kSaturation, kHue };

/// Returns the image with one change of its colours, as Pillow's ImageEnhance does it (hue: by a shift of
/// `factor` turns in Pillow's HSV). Throws ImageError for an image without three channels.
Pixels change_colours(const Pixels& image, ColourChange change, double factor);

}  // namespace torch_distinput
