// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/images/image_targets.h"

#include <limits>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "core/names.h"
#include "kernels/dense.h"
#include "kernels/images/boxes.h"
#include "kernels/images/planes.h"
#include "kernels/rows.h"
#include "ops/images/choose_leaf.h"

namespace torch_distinput {
namespace {

bool is_mask_shape(const std::optional<Dims>& shape) {
  return !shape || shape->size() == 2 || shape->size() == 3;
}

bool is_mask_dtype(c10::ScalarType dtype) { return dtype == at::kByte || dtype == at::kBool; }

bool suits_mask(const LeafSpec& leaf) {
  if (const auto* const string = std::get_if<StringSpec>(&leaf))
    return !string->encoding && string->shape == Dims{};
  const auto* const dense = std::get_if<TensorSpec>(&leaf);
  return dense != nullptr && is_mask_dtype(dense->dtype) && is_mask_shape(dense->shape);
}

bool suits_boxes(const LeafSpec& leaf) {
  const auto* const dense = std::get_if<TensorSpec>(&leaf);
  if (dense == nullptr || !is_box_dtype(dense->dtype)) return false;
  return !dense->shape ||
         (dense->shape->size() == 2 && (dense->shape->back() == 4 || dense->shape->back() == kUnknownDim));
}

constexpr const char* kMask =
    "a mask (uint8 or bool, [height, width] or [n, height, width], or an encoded PNG)";
constexpr const char* kBoxes = "a tensor of boxes (float32, float64, int32 or int64, [n, 4])";

/// Throws if a mask of these dims cannot belong to an image of `dims`.
void check_mask_dims(const ElementSpec& spec, std::size_t mask, ImageDims dims, const char* op) {
  const auto* const dense = std::get_if<TensorSpec>(&spec.leaves[mask]);
  if (dense == nullptr || !dense->shape) return;
  const auto differ = [](std::int64_t one, std::int64_t other) {
    return one != kUnknownDim && other != kUnknownDim && one != other;
  };
  const Dims& shape = *dense->shape;
  TORCH_CHECK_VALUE(!differ(shape[shape.size() - 2], dims.height) && !differ(shape.back(), dims.width), op,
                    ": mask ", leaf_name(*spec.structure, mask), " must be as large as its image, ",
                    dims_string(Dims{dims.height, dims.width}), ", but is ", dims_string(shape), ".");
}

const at::Tensor& dense_target(const Leaf& leaf, const char* what) {
  const auto* const tensor = std::get_if<at::Tensor>(&leaf);
  if (tensor == nullptr || !tensor->device().is_cpu() || tensor->layout() != at::kStrided)
    throw ImageError(std::string(what) + " must be dense and in host memory, but the leaf is " +
                     std::string(leaf_kind(leaf)));
  return *tensor;
}

std::string shape_text(const at::Tensor& tensor) {
  return dims_string(Dims(tensor.sizes().begin(), tensor.sizes().end()));
}

void check_mask_extent(Extent mask, Extent image) {
  if (mask != image)
    throw ImageError("a mask must be as large as its image, " + describe_extent(image) + ", but is " +
                     describe_extent(mask));
}

Extent extent_after_all(Extent extent, std::span<const Edit> edits) {
  for (const Edit& edit : edits) extent = extent_after(edit, extent);
  return extent;
}

}  // namespace

std::set<std::size_t> DeclaredTargets::masks() const {
  std::set<std::size_t> all;
  for (const auto& [image, targets] : by_image) all.insert(targets.masks.begin(), targets.masks.end());
  return all;
}

TargetLeaves DeclaredTargets::of(std::size_t leaf) const {
  const auto found = by_image.find(leaf);
  return found == by_image.end() ? TargetLeaves{} : found->second;
}

TargetLeaves find_targets(const ImageTargets& step, const ElementSpec& spec, std::size_t image,
                          ImageDims dims, const DeclaredTargets& others) {
  const char* const op = step_name(step);
  TargetLeaves targets{{}, {}, step.box_format};
  std::set<std::size_t> named{image};
  for (const auto& [other, found] : others.by_image) {
    if (other == image) continue;
    named.insert(other);
    named.insert(found.masks.begin(), found.masks.end());
    named.insert(found.boxes.begin(), found.boxes.end());
  }
  const auto add = [&](std::size_t leaf, const char* parameter, std::vector<std::size_t>& to) {
    TORCH_CHECK_VALUE(named.insert(leaf).second, op, ": `", parameter, "` names ",
                      leaf_name(*spec.structure, leaf), ", which is an image or follows one.");
    to.push_back(leaf);
  };
  for (const ImageKey& key : step.masks) {
    const std::size_t leaf = choose_leaf(spec, key, {op, "masks", kMask, suits_mask}, named);
    add(leaf, "masks", targets.masks);
    check_mask_dims(spec, leaf, dims, op);
  }
  for (const ImageKey& key : step.boxes)
    add(choose_leaf(spec, key, {op, "boxes", kBoxes, suits_boxes}, named), "boxes", targets.boxes);
  return targets;
}

void check_targets(const ImageStep& step, const TargetLeaves& targets, const ElementSpec& spec) {
  const char* const op = step_name(step);
  const auto check = [&](std::size_t leaf, bool (*suits)(const LeafSpec&), const char* what) {
    TORCH_CHECK_VALUE(suits(spec.leaves[leaf]), op, ": ", leaf_name(*spec.structure, leaf),
                      ", which follows the image, must be ", what, ", but is ", to_string(spec.leaves[leaf]),
                      ".");
  };
  for (const std::size_t leaf : targets.masks) check(leaf, suits_mask, kMask);
  for (const std::size_t leaf : targets.boxes) check(leaf, suits_boxes, kBoxes);
  TORCH_CHECK_VALUE(!std::holds_alternative<RandAugment>(step) || targets == TargetLeaves{}, op,
                    ": masks and boxes cannot follow the image; call `with_image_targets` without "
                    "arguments before it to leave them as they are.");
  const auto check_padding = [&](PaddingMode mode) {
    TORCH_CHECK_VALUE(mode == PaddingMode::kConstant || targets.boxes.empty(), op,
                      ": `padding_mode` must be \"constant\" where boxes follow the image, as ",
                      leaf_name(*spec.structure, targets.boxes.front()), " does.");
  };
  if (const auto* const pad = std::get_if<Pad>(&step)) check_padding(pad->padding_mode);
  if (const auto* const crop = std::get_if<RandomCrop>(&step)) check_padding(crop->padding_mode);
}

TensorSpec mask_spec_after(const LeafSpec& spec, ImageDims dims) {
  const auto* const dense = std::get_if<TensorSpec>(&spec);
  if (dense == nullptr) return {Dims{1, dims.height, dims.width}, at::kByte};
  TensorSpec after{dense->shape, dense->dtype};
  if (!after.shape) return after;
  (*after.shape)[after.shape->size() - 2] = dims.height;
  after.shape->back() = dims.width;
  return after;
}

at::Tensor edited_mask(const Leaf& leaf, Extent extent, std::span<const Edit> edits, BufferPool& pool) {
  const std::vector<Edit> changes = mask_edits(edits);
  const Extent after = extent_after_all(extent, changes);
  ImageSource source;
  if (const auto* const bytes = std::get_if<Bytes>(&leaf)) {
    source.encoded = (*bytes)[0];
    source.head = read_head(source.encoded, std::numeric_limits<std::int64_t>::max());
    source.samples = Samples::kMask;
    check_mask_extent(source.extent(), extent);
    at::Tensor result = pooled_tensor(Dims{1, after.height, after.width}, at::kByte, pool);
    store_pixels(edited(source, changes), ImageLayout::kNchw,
                 static_cast<std::uint8_t*>(result.mutable_data_ptr()));
    return result;
  }
  const at::Tensor& mask = dense_target(leaf, "a mask");
  if (!is_mask_dtype(mask.scalar_type()) || (mask.dim() != 2 && mask.dim() != 3))
    throw ImageError("a mask must be uint8 or bool, [height, width] or [n, height, width], but is " +
                     dtype_name(mask.scalar_type()) + " of shape " + shape_text(mask));
  check_mask_extent({mask.size(-1), mask.size(-2)}, extent);
  Dims shape(mask.sizes().begin(), mask.sizes().end());
  shape[shape.size() - 2] = after.height;
  shape.back() = after.width;
  at::Tensor result = pooled_tensor(shape, mask.scalar_type(), pool);
  const Block items = host_pool()->acquire(mask.nbytes());
  copy_items(mask, static_cast<char*>(items.data()));
  const std::int64_t planes = mask.dim() == 3 ? mask.size(0) : 1;
  const auto* from = static_cast<const std::uint8_t*>(items.data());
  auto* to = static_cast<std::uint8_t*>(result.mutable_data_ptr());
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    source.pixels = load_pixels(from, ImageLayout::kNchw, 1, extent);
    store_pixels(edited(source, changes), ImageLayout::kNchw, to);
    from += extent.width * extent.height;
    to += after.width * after.height;
  }
  return result;
}

at::Tensor edited_boxes(const Leaf& leaf, BoxFormat format, Extent extent, std::span<const Edit> edits,
                        BufferPool& pool) {
  const at::Tensor& boxes = dense_target(leaf, "boxes");
  if (!is_box_dtype(boxes.scalar_type()) || boxes.dim() != 2 || boxes.size(1) != 4)
    throw ImageError("boxes must be float32, float64, int32 or int64, [n, 4], but are " +
                     dtype_name(boxes.scalar_type()) + " of shape " + shape_text(boxes));
  at::Tensor result = pooled_tensor(boxes.sizes(), boxes.scalar_type(), pool);
  copy_items(boxes, static_cast<char*>(result.mutable_data_ptr()));
  edit_boxes(result, format, extent, edits);
  return result;
}

}  // namespace torch_distinput
