// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/images/pixels.h"
#include "torch_distinput/dataset_options.h"

/// \file
/// Pixels to and from contiguous tensors of either layout. Safe from any thread.

namespace torch_distinput {

/// The pixels of a contiguous uint8 image with `channels` channels; copied, so that slack follows.
Pixels load_pixels(const std::uint8_t* from, ImageLayout layout, std::int64_t channels, Extent extent);

/// Writes `pixels` to a contiguous uint8 image.
void store_pixels(const Pixels& pixels, ImageLayout layout, std::uint8_t* to);

}  // namespace torch_distinput
