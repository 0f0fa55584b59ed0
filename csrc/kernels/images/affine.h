// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "kernels/images/pixels.h"

namespace torch_distinput {

/// Where the pixels of a result come from: (x, y) shows what is at (a x + b y + c, d x + e y + f), in pixels
/// whose centers are at halves.
struct AffineMap {
  std::array<double, 6> numbers;  ///< a to f
};

/// Moves each line right by `factor` times its place.
AffineMap shear_across(double factor);
/// Moves each column down by `factor` times its place.
AffineMap shear_down(double factor);
/// Moves all pixels to the right and down.
AffineMap shift(double right, double down);
/// Turns the image counterclockwise about its middle, as Pillow's `Image.rotate`.
AffineMap rotation(double degrees, Extent extent);

/// The image after `map`, of the same size: the nearest pixels, and 0 outside of the image, as Pillow's
/// `Image.transform` chooses them.
Pixels mapped(const Pixels& image, const AffineMap& map);

}  // namespace torch_distinput
