// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "torch_distinput/dataset.h"

namespace torch_distinput {

class BufferPool;

/// How bytes become numbers: fma(byte, scale[channel], shift[channel]) in float32, then rounded to `dtype`
/// (float32, float16 or bfloat16), to nearest, ties to even.
struct ImageScaling {
  std::vector<float> scale;
  std::vector<float> shift;
  c10::ScalarType dtype;
  ImageLayout layout;  ///< of the result

  std::int64_t channels() const { return static_cast<std::int64_t>(scale.size()); }
};

/// Where the channels of an image are among its last three dims.
enum class ChannelDim { kLast, kThirdLast };

/// Throws c10::ValueError, which names `leaf`, where neither the last nor the third last dim of images of
/// `sizes` is `channels`.
ChannelDim find_channels(at::IntArrayRef sizes, std::int64_t channels, const std::string& leaf);

/// The dims of images of `dims` once they are unpacked to `layout`.
Dims unpacked_dims(Dims dims, ChannelDim from, ImageLayout layout);

/// What turns the images among the leaves of an element into numbers.
struct ImageNormalization {
  ImageScaling scaling;
  bool batched;  ///< dim 0 of a leaf counts rows

  /// Whether a dense leaf of this dtype and number of dims is images.
  bool applies_to(c10::ScalarType dtype, std::size_t dims) const;
};

/// `images`: uint8, contiguous, in host memory, [..., height, width, channels] or [..., channels, height,
/// width]. `flip`: one for each image (the product of the dims before), not 0: left and right change sides;
/// empty: none do. The result lies in `pool`. Large ones are shared out among the threads of the calling
/// task's arena; the bits do not depend on that.
at::Tensor unpack_images(const at::Tensor& images, ChannelDim from, const ImageScaling& scaling,
                         std::span<const std::uint8_t> flip, BufferPool& pool);

}  // namespace torch_distinput
