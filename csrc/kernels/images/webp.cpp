// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/codecs.h"

#ifdef TDI_HAS_WEBP

#include <webp/decode.h>

namespace torch_distinput {
namespace {

const std::uint8_t* bytes_of(std::string_view encoded) {
  return reinterpret_cast<const std::uint8_t*>(encoded.data());
}

}  // namespace

bool has_webp() { return true; }

Extent webp_extent(std::string_view encoded) {
  WebPBitstreamFeatures features;
  switch (WebPGetFeatures(bytes_of(encoded), encoded.size(), &features)) {
    case VP8_STATUS_OK:
      break;
    case VP8_STATUS_NOT_ENOUGH_DATA:
      throw EncodedImageError("WebP: the data is truncated");
    default:
      throw EncodedImageError("WebP: the head is damaged");
  }
  if (features.has_animation != 0) throw EncodedImageError("WebP: animations are not supported");
  return {features.width, features.height};
}

Pixels decode_webp(std::string_view encoded, const Box& region) {
  const Pixels pixels = make_pixels(webp_extent(encoded), 3);
  const auto size = static_cast<std::size_t>(pixels.stride * pixels.height);
  if (WebPDecodeRGBInto(bytes_of(encoded), encoded.size(), pixels.data, size,
                        static_cast<int>(pixels.stride)) == nullptr)
    throw EncodedImageError("WebP: the data is damaged or truncated");
  return pixels.part(region);
}

}  // namespace torch_distinput

#else

namespace torch_distinput {

bool has_webp() { return false; }
Extent webp_extent(std::string_view) { throw ImageError("this build has no decoder for WebP"); }
Pixels decode_webp(std::string_view, const Box&) { throw ImageError("this build has no decoder for WebP"); }

}  // namespace torch_distinput

#endif
