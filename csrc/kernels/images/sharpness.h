// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images/pixels.h"

namespace torch_distinput {

/// Between a smoothed image (factor 0) and the image (factor 1), or beyond, as Pillow's
/// `ImageEnhance.Sharpness`. Images may have any number of channels.
Pixels sharpened(const Pixels& image, float factor);

}  // namespace torch_distinput
