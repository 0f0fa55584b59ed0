// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset_options.h"
#include "torch_distinput/element.h"

/// \file
/// Ops on images: uint8 in and out, before `batch`. Names, arguments and defaults are those of
/// torchvision.transforms.v2. Random ops draw from (seed, epoch, row, op).

namespace torch_distinput {

/// How an image is resized. The names are Pillow's.
enum class Interpolation { kNearest, kBilinear, kBicubic };
/// What the pixels are that are added around an image.
enum class PaddingMode { kConstant, kEdge, kReflect, kSymmetric };
/// The four numbers of a bounding box: two corners; a corner and sizes; the center and sizes. x before y, in
/// pixels.
enum class BoxFormat { kXyxy, kXywh, kCxcywh };

/// An image with more pixels is refused: twice Pillow's `MAX_IMAGE_PIXELS`, where Pillow refuses it.
inline constexpr std::int64_t kDefaultMaxPixels = 178'956'970;
/// How many times as large as wanted a JPEG stays that is decoded at a fraction of its size: Pillow's value
/// for thumbnails.
inline constexpr double kDefaultReducingGap = 2;

/// JPEG, PNG or WebP bytes become RGB, [3, height, width] or (kNhwc) [height, width, 3].
struct DecodeImage {
  ImageLayout layout = ImageLayout::kNchw;
  std::int64_t max_pixels = kDefaultMaxPixels;  ///< at least 1
  /// A JPEG that the next op resizes is decoded at 1/2, 1/4 or 1/8 of its size where that leaves so many
  /// times the wanted size in both dims, as in Pillow; at least 1. Unset: always as a whole, which is the
  /// exact resize.
  std::optional<double> reducing_gap = kDefaultReducingGap;
};
/// To {height, width}, or {size}: the shorter edge, keeping the proportions.
struct Resize {
  std::vector<std::int64_t> size;
  Interpolation interpolation = Interpolation::kBilinear;
  /// Whether a smaller image is a mean over all pixels of the larger one. REQUIRES: true for kBicubic.
  bool antialias = true;
};
/// The middle {height, width}, or {side} for a square. A smaller image is padded with 0.
struct CenterCrop {
  std::vector<std::int64_t> size;
};
/// Adds pixels {left, top, right, bottom}, or {left and right, top and bottom}, or {all}.
struct Pad {
  std::vector<std::int64_t> padding;
  std::int64_t fill = 0;  ///< in [0, 255], of every channel
  PaddingMode padding_mode = PaddingMode::kConstant;
};
/// {height, width}, or {side}, at a random place.
struct RandomCrop {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> padding = {};  ///< as in `Pad`, added before; empty: none
  bool pad_if_needed = false;              ///< pads a smaller image, which else is an error
  std::int64_t fill = 0;
  PaddingMode padding_mode = PaddingMode::kConstant;
};
/// A random part of random proportions, resized to {height, width}, or {side}.
struct RandomResizedCrop {
  std::vector<std::int64_t> size;
  std::array<double, 2> scale{0.08, 1.0};             ///< of the area, in (0, 1]
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};  ///< width / height
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
};
/// Mirrors left to right, with probability `p`.
struct HorizontalFlip {
  double p = 0.5;
};
/// Mirrors top to bottom, with probability `p`.
struct VerticalFlip {
  double p = 0.5;
};
/// Turns by `k` quarters counterclockwise; unset: a random number of them.
struct Rotate90 {
  std::optional<std::int64_t> k = {};
};
/// Changes brightness, contrast, saturation and hue, in random order, by factors from these intervals; unset:
/// not at all. The results are those of torchvision's ColorJitter for Pillow's images.
struct ColorJitter {
  using Interval = std::optional<std::array<double, 2>>;
  Interval brightness = {};  ///< at least 0
  Interval contrast = {};
  Interval saturation = {};
  Interval hue = {};  ///< in [-0.5, 0.5]
};

/// `num_ops` random changes, one after the other, of RandAugment's 14 (Cubuk et al. 2020): none, shear, shift
/// and rotation, brightness, saturation, contrast, sharpness, posterize, solarize, autocontrast, equalize,
/// each as large as `magnitude` of `num_magnitude_bins` says. Changes, magnitudes and results are those of
/// torchvision's RandAugment for Pillow's images: the nearest pixels, 0 outside of the image. Masks and boxes
/// cannot follow.
struct RandAugment {
  std::int64_t num_ops = 2;              ///< in [0, 64]
  std::int64_t magnitude = 9;            ///< in [0, num_magnitude_bins)
  std::int64_t num_magnitude_bins = 31;  ///< in [2, 1024]
};

/// Names a leaf: the key of a dict or field of a named tuple, or the index of a tuple's part; unset: the only
/// leaf that can be meant.
using ImageKey = std::variant<std::monostate, std::string, std::int64_t>;

/// Masks and bounding boxes of the image: later ops change them together with it, with the same random
/// numbers. A mask is uint8 or bool, [height, width] or [n, height, width], or a grey or palette PNG, which
/// becomes uint8 [1, height, width]; it is resized to the nearest pixel and padded with 0. Boxes are [n, 4],
/// float or integer; crops and padding clamp them to the image, and none is dropped. Replaces an earlier
/// declaration for the same image.
struct ImageTargets {
  std::vector<ImageKey> masks;
  std::vector<ImageKey> boxes;
  BoxFormat box_format = BoxFormat::kXyxy;
};

/// One op on an image.
using ImageStep =
    std::variant<DecodeImage, Resize, CenterCrop, Pad, RandomCrop, RandomResizedCrop, HorizontalFlip,
                 VerticalFlip, Rotate90, ColorJitter, RandAugment, ImageTargets>;

/// The dataset with `step` applied to the image of each element. Throws c10::ValueError for arguments out
/// of range, for a leaf that does not hold images, and if the leaf is not unique.
TDI_API NodePtr apply_image_step(NodePtr input, ImageStep step, const ImageKey& key);

/// The ops of images, as methods of a dataset (`Self`).
template <class Self>
class ImageOps {
 public:
  Self decode_image(DecodeImage step = {}, const ImageKey& key = {}) const { return image(step, key); }
  Self resize(Resize step, const ImageKey& key = {}) const { return image(std::move(step), key); }
  Self center_crop(CenterCrop step, const ImageKey& key = {}) const { return image(std::move(step), key); }
  Self pad(Pad step, const ImageKey& key = {}) const { return image(std::move(step), key); }
  Self random_crop(RandomCrop step, const ImageKey& key = {}) const { return image(std::move(step), key); }
  Self random_resized_crop(RandomResizedCrop step, const ImageKey& key = {}) const {
    return image(std::move(step), key);
  }
  Self horizontal_flip(HorizontalFlip step = {}, const ImageKey& key = {}) const { return image(step, key); }
  Self vertical_flip(VerticalFlip step = {}, const ImageKey& key = {}) const { return image(step, key); }
  Self rotate90(Rotate90 step = {}, const ImageKey& key = {}) const { return image(step, key); }
  Self color_jitter(ColorJitter step, const ImageKey& key = {}) const { return image(step, key); }
  Self rand_augment(RandAugment step = {}, const ImageKey& key = {}) const { return image(step, key); }
  Self with_image_targets(ImageTargets step, const ImageKey& key = {}) const {
    return image(std::move(step), key);
  }

 private:
  friend Self;
  ImageOps() = default;

  Self image(ImageStep step, const ImageKey& key) const {
    return Self(apply_image_step(static_cast<const Self&>(*this).node(), std::move(step), key));
  }
};

}  // namespace torch_distinput
