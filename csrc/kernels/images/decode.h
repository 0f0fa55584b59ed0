// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/images/line_source.h"
#include "kernels/images/pixels.h"

/// \file
/// Encoded images as RGB pixels, as Pillow's `convert("RGB")` gives them: grey is repeated, alpha and
/// embedded profiles are left out, CMYK is converted without a profile, 16 bits keep the high byte, but 16
/// bits of grey become at most 255; the EXIF orientation is not applied. All functions are safe from any
/// thread.

namespace torch_distinput {

/// A format of images.
enum class ImageFormat { kJpeg, kPng, kWebp };

/// What the head of an image tells.
struct ImageHead {
  ImageFormat format;
  Extent extent;
};

/// Throws ImageError naming the system's package if this library was built without one of the decoders.
void check_decoders();

/// Reads the head of an image. Throws EncodedImageError if it is damaged, of no known format, or larger than
/// `max_pixels`.
ImageHead read_head(std::string_view encoded, std::int64_t max_pixels);

/// The lines of `region`, counted from its top. A JPEG is decoded as they are read; it may be decoded at a
/// fraction of its size, 1 / `denominator` (1, 2, 4 or 8), rounded up, and `region` is then one of the
/// smaller image. With `denominator` 1, the pixels are those of the whole image decoded. What lies after
/// the lines that are read is not looked at. Throws ImageError for damaged data, and for a mask that is not a
/// grey or palette PNG. REQUIRES: `head` of `encoded`, which outlives the result; `denominator` is 1 for
/// other formats than JPEG.
std::unique_ptr<LineSource> open_image(std::string_view encoded, const ImageHead& head, const Box& region,
                                       int denominator, Samples samples = Samples::kRgb);

}  // namespace torch_distinput
