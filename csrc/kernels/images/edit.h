// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/images/affine.h"
#include "kernels/images/colours.h"
#include "kernels/images/decode.h"
#include "kernels/images/pixels.h"
#include "torch_distinput/images.h"

/// \file
/// Edits of one image, with all their numbers drawn, and the pixels that they give. Only the pixels that
/// later edits need are decoded and computed.

namespace torch_distinput {

/// Keeps the pixels of `box`, which lies inside of the image.
struct CropEdit {
  Box box;
};
struct ResizeEdit {
  Extent size;
  Interpolation interpolation;
  bool antialias;
};
struct FlipEdit {
  bool horizontal;
};
/// Quarters counterclockwise, 1 to 3.
struct TurnEdit {
  int quarters;
};
struct PadEdit {
  std::int64_t left;
  std::int64_t top;
  std::int64_t right;
  std::int64_t bottom;
  std::uint8_t fill;
  PaddingMode mode;
};
struct ColourEdit {
  ColourChange change;
  double factor;
};
struct AffineEdit {
  AffineMap map;
};
using Edit = std::variant<CropEdit, ResizeEdit, FlipEdit, TurnEdit, PadEdit, ColourEdit, AffineEdit>;

/// The extent of an image of `extent` after `edit`.
Extent extent_after(const Edit& edit, Extent extent);

/// An image before its edits: encoded, or (with `head` unset) decoded.
struct ImageSource {
  std::string_view encoded = {};
  std::optional<ImageHead> head = {};
  Samples samples = Samples::kRgb;  ///< what it is decoded to
  Pixels pixels = {};
  std::optional<double> reducing_gap = kDefaultReducingGap;  ///< as DecodeImage::reducing_gap

  Extent extent() const { return head ? head->extent : pixels.extent(); }
};

/// The image after `edits`. A JPEG that a resize makes much smaller is decoded at 1/2, 1/4 or 1/8 of its
/// size, as long as what is resized stays at least `reducing_gap` times as large as wanted. Throws ImageError
/// for damaged data, and for changes of colours of an image without three channels.
Pixels edited(const ImageSource& source, std::vector<Edit> edits);

/// What `edits` of an image mean for its mask: resizes take the nearest pixel, padding is 0, and colours do
/// not matter.
std::vector<Edit> mask_edits(std::span<const Edit> edits);

}  // namespace torch_distinput
