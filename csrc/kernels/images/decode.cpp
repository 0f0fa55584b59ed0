// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/decode.h"

#include <string>

#include "kernels/images/codecs.h"

namespace torch_distinput {
namespace {

ImageFormat format_of(std::string_view encoded) {
  if (encoded.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (encoded.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  if (encoded.starts_with("RIFF") && encoded.substr(0, 12).ends_with("WEBP")) return ImageFormat::kWebp;
  throw EncodedImageError(encoded.empty() ? "the image is empty" : "the image is not JPEG, PNG or WebP");
}

Extent extent_of(std::string_view encoded, ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return jpeg_extent(encoded);
    case ImageFormat::kPng:
      return png_extent(encoded);
    case ImageFormat::kWebp:
      return webp_extent(encoded);
  }
  return {};
}

}  // namespace

void check_decoders() {
  std::string missing;
  if (!has_jpeg()) missing += " libturbojpeg0-dev";
  if (!has_png()) missing += " libpng-dev";
  if (!has_webp()) missing += " libwebp-dev";
  if (missing.empty()) return;
  throw ImageError("this build has no decoders for all formats; install" + missing +
                   " (names of Debian's packages) and build torch_distinput again");
}

ImageHead read_head(std::string_view encoded, std::int64_t max_pixels) {
  const ImageFormat format = format_of(encoded);
  const Extent extent = extent_of(encoded, format);
  if (extent.width < 1 || extent.height < 1) throw EncodedImageError("the image has no pixels");
  if (extent.width > max_pixels / extent.height) {
    throw EncodedImageError("the image has " + std::to_string(extent.width) + " x " +
                            std::to_string(extent.height) + " pixels, more than `max_pixels`=" +
                            std::to_string(max_pixels) + " (it could be a decompression bomb)");
  }
  return {format, extent};
}

std::unique_ptr<LineSource> open_image(std::string_view encoded, const ImageHead& head, const Box& region,
                                       int denominator, Samples samples) {
  if (samples == Samples::kMask && head.format != ImageFormat::kPng)
    throw ImageError("a mask must be a PNG, because other formats change its numbers");
  switch (head.format) {
    case ImageFormat::kJpeg:
      return open_jpeg(encoded, region, denominator);
    case ImageFormat::kPng:
      return std::make_unique<LoadedLines>(decode_png(encoded, region, samples));
    case ImageFormat::kWebp:
      return std::make_unique<LoadedLines>(decode_webp(encoded, region));
  }
  return nullptr;
}

}  // namespace torch_distinput
