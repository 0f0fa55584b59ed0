// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images/pixels.h"

/// \file
/// Changes of each value by a table, as in Pillow's ImageOps. Images may have any number of channels.

namespace torch_distinput {

/// Keeps the highest `bits` bits of each value. REQUIRES: `bits` in [0, 8].
Pixels posterized(const Pixels& image, int bits);
/// Inverts the values from `threshold` on.
Pixels solarized(const Pixels& image, double threshold);
/// Stretches the values of each channel, so that the lowest becomes 0 and the highest 255.
Pixels autocontrasted(const Pixels& image);
/// Spreads the values of each channel, so that all become about as frequent.
Pixels equalized(const Pixels& image);

}  // namespace torch_distinput
