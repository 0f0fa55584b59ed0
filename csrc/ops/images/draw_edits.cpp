// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "ops/images/image_steps.h"
#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

/// Python's `int(round(value))`: halves go to the even number.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// {height, width}, or {side} of a square.
Extent extent_of(const std::vector<std::int64_t>& size) { return {size.back(), size.front()}; }

/// {height, width}, or {shorter edge}; the longer one keeps the proportions, rounded down.
Extent resized(const std::vector<std::int64_t>& size, Extent extent) {
  if (size.size() == 2) return extent_of(size);
  const std::int64_t side = size.front();
  const auto longer = [&](std::int64_t edge, std::int64_t shorter) {
    const auto ratio = static_cast<double>(side) * static_cast<double>(edge) / static_cast<double>(shorter);
    return static_cast<std::int64_t>(ratio);
  };
  if (extent.width <= extent.height) return {side, longer(extent.height, extent.width)};
  return {longer(extent.width, extent.height), side};
}

PadEdit pad_edit(const std::vector<std::int64_t>& padding, std::int64_t fill, PaddingMode mode) {
  PadEdit edit{0, 0, 0, 0, static_cast<std::uint8_t>(fill), mode};
  if (padding.empty()) return edit;
  edit.left = padding.front();
  edit.top = padding.size() == 1 ? padding[0] : padding[1];
  edit.right = padding.size() == 4 ? padding[2] : edit.left;
  edit.bottom = padding.size() == 4 ? padding[3] : edit.top;
  return edit;
}

/// Throws ImageError for an image that is too large to be made.
void check_extent(Extent extent) {
  if (extent.height > kDefaultMaxPixels / extent.width)
    throw ImageError("the result would have " + describe_extent(extent) + " pixels, more than " +
                     std::to_string(kDefaultMaxPixels));
}

/// Adds `pad` to `edits` unless it adds nothing, and returns the extent after it.
Extent add_padding(const PadEdit& pad, Extent extent, std::vector<Edit>& edits) {
  if (pad.left == 0 && pad.top == 0 && pad.right == 0 && pad.bottom == 0) return extent;
  const std::int64_t spare = pad.mode == PaddingMode::kReflect ? 1 : 0;
  const bool mirrors = pad.mode == PaddingMode::kReflect || pad.mode == PaddingMode::kSymmetric;
  if (mirrors && (std::max(pad.left, pad.right) > extent.width - spare ||
                  std::max(pad.top, pad.bottom) > extent.height - spare))
    throw ImageError("the padding is larger than the image, " + describe_extent(extent) +
                     ", can fill by mirroring");
  edits.emplace_back(pad);
  const Extent after = extent_after(edits.back(), extent);
  check_extent(after);
  return after;
}

void add_resize(Extent size, Interpolation interpolation, bool antialias, Extent extent,
                std::vector<Edit>& edits) {
  if (size.width < 1 || size.height < 1)
    throw ImageError("an image of " + describe_extent(extent) + " would get no pixels");
  check_extent(size);
  if (size == extent) return;
  edits.emplace_back(ResizeEdit{size, interpolation, antialias && interpolation != Interpolation::kNearest});
}

/// The place of a crop, as torchvision's RandomResizedCrop draws it.
Box draw_box(const RandomResizedCrop& step, Extent extent, RowDraws& draws) {
  constexpr int kAttempts = 10;
  const auto area = static_cast<double>(extent.width) * static_cast<double>(extent.height);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double wanted = area * draws.uniform(step.scale[0], step.scale[1]);
    const double ratio = std::exp(draws.uniform(std::log(step.ratio[0]), std::log(step.ratio[1])));
    const std::int64_t width = rounded(std::sqrt(wanted * ratio));
    const std::int64_t height = rounded(std::sqrt(wanted / ratio));
    if (width < 1 || height < 1 || width > extent.width || height > extent.height) continue;
    const std::int64_t top = draws.below(extent.height - height + 1);
    const std::int64_t left = draws.below(extent.width - width + 1);
    return {left, top, width, height};
  }
  const double ratio = static_cast<double>(extent.width) / static_cast<double>(extent.height);
  Extent size = extent;
  if (ratio < step.ratio[0])
    size.height = rounded(static_cast<double>(size.width) / step.ratio[0]);
  else if (ratio > step.ratio[1])
    size.width = rounded(static_cast<double>(size.height) * step.ratio[1]);
  size.width = std::clamp<std::int64_t>(size.width, 1, extent.width);
  size.height = std::clamp<std::int64_t>(size.height, 1, extent.height);
  return {(extent.width - size.width) / 2, (extent.height - size.height) / 2, size.width, size.height};
}

struct Draw {
  Extent extent;
  RowDraws& draws;
  std::vector<Edit>& edits;

  void operator()(const DecodeImage&) const {}

  void operator()(const Resize& step) const {
    add_resize(resized(step.size, extent), step.interpolation, step.antialias, extent, edits);
  }

  void operator()(const CenterCrop& step) const {
    const Extent size = extent_of(step.size);
    PadEdit pad = pad_edit({}, 0, PaddingMode::kConstant);
    const std::int64_t missing_x = std::max<std::int64_t>(0, size.width - extent.width);
    const std::int64_t missing_y = std::max<std::int64_t>(0, size.height - extent.height);
    pad.left = missing_x / 2;
    pad.right = missing_x - pad.left;
    pad.top = missing_y / 2;
    pad.bottom = missing_y - pad.top;
    const Extent now = add_padding(pad, extent, edits);
    const std::int64_t top = rounded(static_cast<double>(now.height - size.height) / 2.0);
    const std::int64_t left = rounded(static_cast<double>(now.width - size.width) / 2.0);
    edits.emplace_back(CropEdit{{left, top, size.width, size.height}});
  }

  void operator()(const Pad& step) const {
    add_padding(pad_edit(step.padding, step.fill, step.padding_mode), extent, edits);
  }

  void operator()(const RandomCrop& step) const {
    const Extent size = extent_of(step.size);
    PadEdit pad = pad_edit(step.padding, step.fill, step.padding_mode);
    const std::int64_t missing_x = size.width - (extent.width + pad.left + pad.right);
    const std::int64_t missing_y = size.height - (extent.height + pad.top + pad.bottom);
    if (missing_x > 0 || missing_y > 0) {
      if (!step.pad_if_needed)
        throw ImageError("a crop of " + describe_extent(size) + " does not fit into an image of " +
                         describe_extent(extent));
      for (std::int64_t* const edge : {&pad.left, &pad.right}) *edge += std::max<std::int64_t>(0, missing_x);
      for (std::int64_t* const edge : {&pad.top, &pad.bottom}) *edge += std::max<std::int64_t>(0, missing_y);
    }
    const Extent now = add_padding(pad, extent, edits);
    const std::int64_t top = draws.below(now.height - size.height + 1);
    const std::int64_t left = draws.below(now.width - size.width + 1);
    edits.emplace_back(CropEdit{{left, top, size.width, size.height}});
  }

  void operator()(const RandomResizedCrop& step) const {
    const Box box = draw_box(step, extent, draws);
    edits.emplace_back(CropEdit{box});
    add_resize(extent_of(step.size), step.interpolation, step.antialias, {box.width, box.height}, edits);
  }

  void operator()(const HorizontalFlip& step) const { flip(step.p, /*horizontal=*/true); }
  void operator()(const VerticalFlip& step) const { flip(step.p, /*horizontal=*/false); }
  void flip(double p, bool horizontal) const {
    if (draws.uniform(0, 1) < p) edits.emplace_back(FlipEdit{horizontal});
  }

  void operator()(const Rotate90& step) const {
    constexpr std::int64_t kQuarters = 4;
    const std::int64_t k = step.k ? (*step.k % kQuarters + kQuarters) % kQuarters : draws.below(kQuarters);
    if (k != 0) edits.emplace_back(TurnEdit{static_cast<int>(k)});
  }

  void operator()(const ColorJitter& step) const {
    const std::array<std::pair<ColourChange, ColorJitter::Interval>, 4> changes{
        {{ColourChange::kBrightness, step.brightness},
         {ColourChange::kContrast, step.contrast},
         {ColourChange::kSaturation, step.saturation},
         {ColourChange::kHue, step.hue}}};
    std::array<std::size_t, 4> order{0, 1, 2, 3};
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i)))]);
    for (const std::size_t i : order) {
      const auto& [change, interval] = changes[i];
      if (interval) edits.emplace_back(ColourEdit{change, draws.uniform((*interval)[0], (*interval)[1])});
    }
  }

  void operator()(const RandAugment& step) const { draw_augmentations(step, extent, draws, edits); }
  void operator()(const ImageTargets&) const {}
};

}  // namespace

std::string describe_extent(Extent extent) {
  return std::to_string(extent.height) + " x " + std::to_string(extent.width);
}

double RowDraws::uniform(double low, double high) {
  const std::uint64_t bits = mix_keys(key_, drawn_++) >> 11;
  return low + std::ldexp(static_cast<double>(bits), -53) * (high - low);
}

std::int64_t RowDraws::below(std::int64_t count) {
  return std::min(static_cast<std::int64_t>(uniform(0, 1) * static_cast<double>(count)), count - 1);
}

ImageDims dims_after(const ImageStep& step, ImageDims dims) {
  const bool known = dims.height != kUnknownDim && dims.width != kUnknownDim;
  const auto fixed = [](const std::vector<std::int64_t>& size) {
    return ImageDims{size.front(), size.back()};
  };
  if (const auto* resize = std::get_if<Resize>(&step)) {
    if (resize->size.size() == 2) return fixed(resize->size);
    if (!known) return {};
    const Extent extent = resized(resize->size, {dims.width, dims.height});
    return {extent.height, extent.width};
  }
  if (const auto* crop = std::get_if<CenterCrop>(&step)) return fixed(crop->size);
  if (const auto* crop = std::get_if<RandomCrop>(&step)) return fixed(crop->size);
  if (const auto* crop = std::get_if<RandomResizedCrop>(&step)) return fixed(crop->size);
  if (const auto* pad = std::get_if<Pad>(&step)) {
    const PadEdit edit = pad_edit(pad->padding, pad->fill, pad->padding_mode);
    if (dims.height != kUnknownDim) dims.height += edit.top + edit.bottom;
    if (dims.width != kUnknownDim) dims.width += edit.left + edit.right;
    return dims;
  }
  if (const auto* turn = std::get_if<Rotate90>(&step)) {
    if (!turn->k) return dims.height == dims.width ? dims : ImageDims{};
    return *turn->k % 2 == 0 ? dims : ImageDims{dims.width, dims.height};
  }
  return dims;
}

void draw_edits(const ImageStep& step, Extent extent, RowDraws& draws, std::vector<Edit>& edits) {
  std::visit(Draw{extent, draws, edits}, step);
}

}  // namespace torch_distinput
