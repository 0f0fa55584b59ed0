// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/images/edit.h"
#include "torch_distinput/images.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// The random numbers of one row and op: a pure function of the key and of how many were drawn before.
class RowDraws {
 public:
  explicit RowDraws(std::uint64_t key) : key_(key) {}

  /// A number from [low, high).
  double uniform(double low, double high);
  /// An integer from [0, count). REQUIRES: `count` >= 1.
  std::int64_t below(std::int64_t count);

 private:
  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
};

/// The op's name, such as `center_crop`.
const char* step_name(const ImageStep& step);
/// The call with its arguments.
std::string describe_step(const ImageStep& step);
/// `height x width`.
std::string describe_extent(Extent extent);
/// Throws c10::ValueError naming op, parameter and value for arguments out of range.
void check_step(const ImageStep& step);

/// What is known of an image before it is read: `kUnknownDim` for an unknown size.
struct ImageDims {
  std::int64_t height = kUnknownDim;
  std::int64_t width = kUnknownDim;
};
/// The dims after `step`, which is not DecodeImage.
ImageDims dims_after(const ImageStep& step, ImageDims dims);

/// Adds the changes of one row to `edits`.
void draw_augmentations(const RandAugment& step, Extent extent, RowDraws& draws, std::vector<Edit>& edits);

/// Adds the edits that `step` means for an image of `extent` to `edits`. Throws ImageError if the image does
/// not suit the step. `step` is not DecodeImage.
void draw_edits(const ImageStep& step, Extent extent, RowDraws& draws, std::vector<Edit>& edits);

}  // namespace torch_distinput
