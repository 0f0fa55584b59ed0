// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "runtime/buffer_pool.h"

namespace torch_distinput {

/// What is wrong with an image, or with an op for an image of this size. Becomes an InvalidArgumentError
/// that also names op and row.
class ImageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Encoded bytes are damaged, of an unknown format or too large. Becomes a DamagedPictureError.
class EncodedImageError : public ImageError {
 public:
  using ImageError::ImageError;
};

/// Width and height in pixels.
struct Extent {
  std::int64_t width = 0;
  std::int64_t height = 0;
  bool operator==(const Extent&) const = default;
};

/// A rectangle of pixels of an image.
struct Box {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;

  std::int64_t right() const { return left + width; }
  std::int64_t bottom() const { return top + height; }
  bool operator==(const Box&) const = default;
};

/// The whole of an image.
inline Box whole(Extent extent) { return {0, 0, extent.width, extent.height}; }

/// What an image is decoded to: kRgb colours; kMask the numbers of a mask, one channel: grey of up to 8
/// bits, or the indices of a palette.
enum class Samples { kRgb, kMask };

/// Bytes that may be read after the last pixel, so that vectors may be loaded there.
inline constexpr std::size_t kPixelSlack = 64;

/// uint8 pixels with adjacent channels. A copy shares the memory.
struct Pixels {
  std::shared_ptr<Block> memory;  ///< followed by `kPixelSlack` bytes
  std::uint8_t* data = nullptr;   ///< of the first pixel
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t channels = 0;
  std::int64_t stride = 0;  ///< bytes from one line to the next

  Extent extent() const { return {width, height}; }
  std::uint8_t* line(std::int64_t y) const { return data + y * stride; }
  /// The pixels of `box`, sharing memory. REQUIRES: `box` lies inside.
  Pixels part(const Box& box) const {
    Pixels result = *this;
    result.data = line(box.top) + box.left * channels;
    result.width = box.width;
    result.height = box.height;
    return result;
  }
};

inline void copy_pixel(const std::uint8_t* from, std::uint8_t* to, std::int64_t channels) {
  for (std::int64_t channel = 0; channel < channels; ++channel) to[channel] = from[channel];
}

/// Uninitialised pixels whose lines are padded to whole vectors.
inline Pixels make_pixels(Extent extent, std::int64_t channels) {
  constexpr std::int64_t kVectorBytes = 32;
  Pixels pixels;
  pixels.width = extent.width;
  pixels.height = extent.height;
  pixels.channels = channels;
  pixels.stride = (extent.width * channels + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
  pixels.memory = std::make_shared<Block>(
      host_pool()->acquire(static_cast<std::size_t>(pixels.stride * extent.height) + kPixelSlack));
  pixels.data = static_cast<std::uint8_t*>(pixels.memory->data());
  return pixels;
}

}  // namespace torch_distinput
