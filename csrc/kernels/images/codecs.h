// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "kernels/images/line_source.h"
#include "kernels/images/pixels.h"

/// \file
/// One function pair for each format, with the contracts of decode.h. In a build without the format's library
/// the functions throw ImageError.

namespace torch_distinput {

/// Whether this build has the library of a format.
bool has_jpeg();
bool has_png();
bool has_webp();

Extent jpeg_extent(std::string_view encoded);
Extent png_extent(std::string_view encoded);
Extent webp_extent(std::string_view encoded);

std::unique_ptr<LineSource> open_jpeg(std::string_view encoded, const Box& region, int denominator);
Pixels decode_png(std::string_view encoded, const Box& region, Samples samples);
Pixels decode_webp(std::string_view encoded, const Box& region);

}  // namespace torch_distinput
