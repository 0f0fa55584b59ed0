// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/padding.h"

#include <ATen/core/Formatting.h>
#include <c10/util/Exception.h>

#include <sstream>
#include <utility>

#include "kernels/dense.h"

namespace torch_distinput {
namespace {

void check_dims(const PaddedShapes& shapes, std::string_view op) {
  for (const std::optional<Dims>& shape : shapes.leaves) {
    for (const std::int64_t dim : shape.value_or(Dims())) {
      TORCH_CHECK_VALUE(dim >= kUnknownDim, op,
                        ": `padded_shapes` must have dims of at least 0, or None, but has ", dim, ".");
    }
  }
}

void check_structure(const StructurePtr& given, std::size_t leaves, const StructurePtr& elements,
                     const char* parameter, std::string_view op) {
  const bool fits =
      given == nullptr ? static_cast<std::int64_t>(leaves) == elements->leaf_count() : given == elements;
  TORCH_CHECK_VALUE(fits, op, ": `", parameter, "` must have the structure of the elements, ",
                    elements->str(), ", but ",
                    given == nullptr ? c10::str("has ", leaves, " leaves") : "is " + given->str(), ".");
}

}  // namespace

Padding::Padding(std::optional<PaddedShapes> shapes, std::optional<Element> values, std::string_view op)
    : op_(op), shapes_(std::move(shapes)), values_{c10::Scalar(0)} {
  if (shapes_) check_dims(*shapes_, op);
  if (!values) return;
  if (values->structure() != Structure::leaf()) values_structure_ = values->structure();
  values_.clear();
  for (std::size_t leaf = 0; leaf < values->leaves().size(); ++leaf) {
    const at::Tensor& value = dense_leaf(*values, leaf, op, "pad with");
    TORCH_CHECK_VALUE(value.dim() == 0, op, ": `padding_values` must be scalars, but ",
                      leaf_name(*values->structure(), leaf), " has the shape ",
                      dims_string(value.sizes().vec()), ".");
    values_.push_back(value.item());
  }
}

std::vector<LeafPadding> Padding::of(const StructurePtr& structure) const {
  std::vector<LeafPadding> padding(static_cast<std::size_t>(structure->leaf_count()));
  if (shapes_) check_structure(shapes_->structure, shapes_->leaves.size(), structure, "padded_shapes", op_);
  if (values_structure_ != nullptr)
    check_structure(values_structure_, values_.size(), structure, "padding_values", op_);
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf) {
    if (shapes_) padding[leaf].shape = shapes_->leaves[leaf];
    padding[leaf].value = values_structure_ == nullptr ? values_.front() : values_[leaf];
  }
  return padding;
}

std::vector<LeafPadding> Padding::of(const ElementSpec& elements) const {
  std::vector<LeafPadding> padding = of(elements.structure);
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf) {
    const auto* spec = std::get_if<TensorSpec>(&elements.leaves[leaf]);
    const std::optional<Dims>& declared = padding[leaf].shape;
    if (spec == nullptr || !spec->shape || !declared) continue;
    bool fits = spec->shape->size() == declared->size();
    for (std::size_t dim = 0; fits && dim < declared->size(); ++dim)
      fits = (*declared)[dim] == kUnknownDim || (*spec->shape)[dim] <= (*declared)[dim];
    TORCH_CHECK_VALUE(fits, op_, ": ", leaf_name(*elements.structure, leaf), " has the shape ",
                      dims_string(spec->shape), ", which cannot be padded to ", dims_string(declared), ".");
  }
  return padding;
}

ElementSpec Padding::batch_spec(const ElementSpec& elements, std::int64_t batch_size) const {
  const std::vector<LeafPadding> padding = of(elements.structure);
  ElementSpec batches = elements;
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf) {
    auto* spec = std::get_if<TensorSpec>(&batches.leaves[leaf]);
    const std::optional<Dims>& declared = padding[leaf].shape;
    if (spec != nullptr && declared) {
      for (std::size_t dim = 0; dim < spec->expected.size() && dim < declared->size(); ++dim) {
        if ((*declared)[dim] != kUnknownDim) spec->expected[dim] = (*declared)[dim];
      }
      spec->shape = declared;
    }
    batches.leaves[leaf] = prepend_dim(batches.leaves[leaf], batch_size);
  }
  return batches;
}

std::string Padding::describe() const {
  std::ostringstream out;
  if (shapes_) {
    out << ", padded_shapes=";
    const char* separator = shapes_->leaves.size() == 1 ? "" : "[";
    for (const std::optional<Dims>& shape : shapes_->leaves)
      out << std::exchange(separator, ", ") << dims_string(shape);
    if (shapes_->leaves.size() != 1) out << ']';
  }
  if (values_structure_ == nullptr && values_.front().equal(0)) return out.str();
  out << ", padding_values=";
  const char* separator = values_structure_ == nullptr ? "" : "[";
  for (const c10::Scalar& value : values_) out << std::exchange(separator, ", ") << value;
  if (values_structure_ != nullptr) out << ']';
  return out.str();
}

}  // namespace torch_distinput
