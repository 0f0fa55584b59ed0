// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ops/images/image_steps.h"
#include "ops/images/image_targets.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/element.h"
#include "torch_distinput/images.h"

namespace torch_distinput {

/// The channels and sizes of the images of a leaf; sizes are `kUnknownDim` where only the data tells.
struct ImageType {
  ImageLayout layout = ImageLayout::kNchw;
  std::int64_t channels = 3;
  ImageDims dims = {};

  /// The dims of a tensor of this type.
  Dims tensor_dims() const;
};

/// The type of images of these dims: channels are the first of three dims if it is known to be 1, 3 or 4,
/// else the last one if that is. nullopt if neither is.
std::optional<ImageType> image_type(const Dims& dims);

/// Returns where a row comes from, for messages; "" or no function where that is not known.
using RowOrigin = std::function<std::string()>;

/// Masks and boxes that steps change as they change the image.
struct Following {
  TargetLeaves leaves = {};
  std::size_t from = 0;  ///< the first of the steps that they follow
};

/// Consecutive image ops on one leaf of an element, and on the masks and boxes that follow it, done as one:
/// only pixels that the last op needs are made. Safe from any thread.
class ImageProgram {
 public:
  /// An op, and the key of the random numbers of its rows in this epoch.
  struct Step {
    ImageStep step;
    std::uint64_t key;
  };

  /// The leaf holds images of type `input`, or (nullopt) encoded ones, which the first of `steps` decodes.
  ImageProgram(std::size_t leaf, std::optional<ImageType> input, std::vector<Step> steps,
               Following following = {});

  /// The leaf that holds the images.
  std::size_t leaf() const noexcept { return leaf_; }
  /// The type of the images after all steps.
  const ImageType& output() const noexcept { return output_; }

  /// Returns the image of `element`, which is row `row`, after all steps, and replaces what follows it by
  /// tensors in memory of `pool`. Throws InvalidArgumentError that names the op, the row, the leaf and what
  /// `origin` returns for a leaf that is damaged or does not suit an op; `element` is then unchanged.
  Pixels run(Element& element, std::int64_t row, const RowOrigin& origin, BufferPool& pool) const;

 private:
  ImageSource source(const Element& element) const;

  std::size_t leaf_;
  std::optional<ImageType> input_;
  ImageType output_;
  std::vector<Step> steps_;
  Following following_;
};

}  // namespace torch_distinput
