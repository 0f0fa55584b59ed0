// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/dataset.h"

namespace torch_distinput {

class BufferPool;

/// How bytes become numbers: fma(byte, scale[channel], shift[channel]) in float32, then rounded to `dtype`,
/// to nearest, ties to even.
struct ImageScaling {
  std::vector<float> scale;  ///< one factor for each channel
  std::vector<float> shift;  ///< one summand for each channel
  c10::ScalarType dtype;     ///< of the result: float32, float16 or bfloat16
  ImageLayout layout;        ///< of the result

  /// The number of channels.
  std::int64_t channels() const { return static_cast<std::int64_t>(scale.size()); }
};

/// Which of the last three dims of an image holds its channels: kLast for [height, width, channels],
/// kThirdLast for [channels, height, width].
enum class ChannelDim { kLast, kThirdLast };

/// Returns which dim of images of shape `sizes` has size `channels`; the last one is tried first. Throws
/// c10::ValueError naming `leaf` if neither the last nor the third last dim has. REQUIRES: at least three
/// dims.
ChannelDim find_channels(at::IntArrayRef sizes, std::int64_t channels, const std::string& leaf);

/// Returns the dims that images of `dims` have after they are unpacked to `layout`.
Dims unpacked_dims(Dims dims, ChannelDim from, ImageLayout layout);

/// How the image leaves of an element are normalized.
struct ImageNormalization {
  ImageScaling scaling;  ///< applied to every image leaf
  bool batched;          ///< whether dim 0 of a leaf counts rows

  /// Returns whether a dense leaf of this dtype and number of dims holds images: uint8 with at least three
  /// dims besides the rows.
  bool applies_to(c10::ScalarType dtype, std::size_t dims) const;
};

/// Returns `images` as normalized numbers in memory of `pool`. `images` is uint8, contiguous, in host memory
/// and of shape [..., height, width, channels] or [..., channels, height, width]. `flip` has one entry for
/// each image (their number is the product of the dims before); an image whose entry is not 0 is mirrored
/// left to right. An empty `flip` mirrors none. Within a task of the arena, large batches are divided among
/// its threads; the result has the same bits. Safe from any thread.
at::Tensor unpack_images(const at::Tensor& images, ChannelDim from, const ImageScaling& scaling,
                         std::span<const std::uint8_t> flip, BufferPool& pool);
/// The same for images of shape `dims` at `images`, none of them mirrored, with the result contiguous at
/// `to`.
void unpack_images(const std::uint8_t* images, at::IntArrayRef dims, ChannelDim from,
                   const ImageScaling& scaling, void* to);

}  // namespace torch_distinput
