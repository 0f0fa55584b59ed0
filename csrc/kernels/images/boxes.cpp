// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/boxes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace torch_distinput {
namespace {

constexpr std::int64_t kBoxNumbers = 4;

/// The numbers of one box.
using BoxNumbers = std::array<double, kBoxNumbers>;

/// Left, top, right and bottom.
BoxNumbers corners_of(const BoxNumbers& box, BoxFormat format) {
  const auto [x, y, width, height] = box;
  switch (format) {
    case BoxFormat::kXyxy:
      return box;
    case BoxFormat::kXywh:
      return {x, y, x + width, y + height};
    case BoxFormat::kCxcywh:
      return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
  }
  return box;
}

BoxNumbers from_corners(const BoxNumbers& corners, BoxFormat format) {
  const auto [left, top, right, bottom] = corners;
  switch (format) {
    case BoxFormat::kXyxy:
      return corners;
    case BoxFormat::kXywh:
      return {left, top, right - left, bottom - top};
    case BoxFormat::kCxcywh:
      return {(left + right) / 2, (top + bottom) / 2, right - left, bottom - top};
  }
  return corners;
}

/// One edit of one box; `Number` is the type that boxes are stored as.
template <class Number>
struct BoxEdit {
  BoxNumbers& box;
  BoxFormat format;
  Extent extent;  ///< before the edit

  void operator()(const CropEdit& crop) const {
    shift(-static_cast<double>(crop.box.left), -static_cast<double>(crop.box.top));
    clamp({crop.box.width, crop.box.height});
  }
  void operator()(const PadEdit& pad) const {
    shift(static_cast<double>(pad.left), static_cast<double>(pad.top));
    clamp(extent_after(pad, extent));
  }
  void operator()(const ResizeEdit& resize) const {
    // Products of float32 are rounded to float32 as in torch, which integers are multiplied with, too.
    using Product = std::conditional_t<std::is_same_v<Number, double>, double, float>;
    const auto factor = [](std::int64_t to, std::int64_t from) {
      return static_cast<Product>(static_cast<double>(to) / static_cast<double>(from));
    };
    const Product across = factor(resize.size.width, extent.width);
    const Product down = factor(resize.size.height, extent.height);
    for (std::size_t i = 0; i < box.size(); ++i)
      box[i] = static_cast<double>(static_cast<Product>(box[i]) * (i % 2 == 0 ? across : down));
  }
  void operator()(const FlipEdit& flip) const {
    mirror(flip.horizontal ? 0 : 1, static_cast<double>(flip.horizontal ? extent.width : extent.height));
  }
  void operator()(const TurnEdit& turn) const {
    Extent now = extent;
    for (int i = 0; i < turn.quarters; ++i, std::swap(now.width, now.height)) {
      // (x, y) becomes (y, width - x).
      std::swap(box[0], box[1]);
      std::swap(box[2], box[3]);
      mirror(1, static_cast<double>(now.width));
    }
  }
  void operator()(const ColourEdit&) const {}
  void operator()(const AffineEdit&) const { throw ImageError("boxes do not follow an affine map"); }

  void shift(double x, double y) const {
    box[0] += x;
    box[1] += y;
    if (format != BoxFormat::kXyxy) return;
    box[2] += x;
    box[3] += y;
  }

  /// Mirrors dim `dim` (0: x, 1: y), in which the image has `size` pixels.
  void mirror(std::size_t dim, double size) const {
    double& first = box[dim];
    double& second = box[dim + 2];
    switch (format) {
      case BoxFormat::kXyxy:
        std::tie(first, second) = std::pair(size - second, size - first);
        return;
      case BoxFormat::kXywh:
        first = size - (first + second);
        return;
      case BoxFormat::kCxcywh:
        first = size - first;
        return;
    }
  }

  void clamp(Extent to) const {
    BoxNumbers corners = corners_of(box, format);
    for (std::size_t i = 0; i < corners.size(); ++i)
      corners[i] = std::clamp(corners[i], 0.0, static_cast<double>(i % 2 == 0 ? to.width : to.height));
    box = from_corners(corners, format);
  }
};

template <class Number>
Number stored(double number) {
  if constexpr (std::is_floating_point_v<Number>) {
    return static_cast<Number>(number);
  } else {
    using Limits = std::numeric_limits<std::int32_t>;
    return static_cast<Number>(
        std::clamp(number, static_cast<double>(Limits::min()), static_cast<double>(Limits::max())));
  }
}

template <class Number>
void edit_numbers(Number* numbers, std::int64_t count, BoxFormat format, Extent extent, const Edit& edit) {
  for (std::int64_t i = 0; i < count; ++i, numbers += kBoxNumbers) {
    BoxNumbers box;
    for (std::size_t at = 0; at < box.size(); ++at) box[at] = static_cast<double>(numbers[at]);
    std::visit(BoxEdit<Number>{box, format, extent}, edit);
    for (std::size_t at = 0; at < box.size(); ++at) numbers[at] = stored<Number>(box[at]);
  }
}

}  // namespace

bool is_box_dtype(c10::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kInt || dtype == at::kLong;
}

void edit_boxes(const at::Tensor& boxes, BoxFormat format, Extent extent, std::span<const Edit> edits) {
  const std::int64_t count = boxes.size(0);
  for (const Edit& edit : edits) {
    switch (boxes.scalar_type()) {
      case at::kFloat:
        edit_numbers(boxes.mutable_data_ptr<float>(), count, format, extent, edit);
        break;
      case at::kDouble:
        edit_numbers(boxes.mutable_data_ptr<double>(), count, format, extent, edit);
        break;
      case at::kInt:
        edit_numbers(boxes.mutable_data_ptr<std::int32_t>(), count, format, extent, edit);
        break;
      default:
        edit_numbers(boxes.mutable_data_ptr<std::int64_t>(), count, format, extent, edit);
    }
    extent = extent_after(edit, extent);
  }
}

}  // namespace torch_distinput
