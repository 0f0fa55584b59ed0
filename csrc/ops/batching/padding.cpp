// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/padding.h"

#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

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

/// The value that leaf `leaf` is padded with; its shape is unset.
LeafPadding padding_value(const Element& values, std::size_t leaf, std::string_view op) {
  const auto* string = std::get_if<Bytes>(&values.leaves()[leaf]);
  const Dims shape =
      string != nullptr ? string->shape : dense_leaf(values, leaf, op, "pad with").sizes().vec();
  TORCH_CHECK_VALUE(shape.empty(), op, ": `padding_values` must be scalars, but ",
                    leaf_name(*values.structure(), leaf), " has the shape ", dims_string(shape), ".");
  if (string != nullptr)
    return {.shape = {}, .value = 0, .text = std::string((*string)[0]), .utf8 = string->utf8};
  return {.shape = {}, .value = values.tensor(leaf).item(), .text = {}};
}

/// The shape of a leaf of a kind that is padded; null for other kinds.
const std::optional<Dims>* paddable_shape(const LeafSpec& leaf) {
  if (const auto* tensor = std::get_if<TensorSpec>(&leaf)) return &tensor->shape;
  if (const auto* strings = std::get_if<StringSpec>(&leaf)) return &strings->shape;
  return nullptr;
}

}  // namespace

Padding::Padding(std::optional<PaddedShapes> shapes, std::optional<Element> values, std::string_view op)
    : op_(op), shapes_(std::move(shapes)), values_(1) {
  if (shapes_) check_dims(*shapes_, op);
  if (!values) return;
  if (values->structure() != Structure::leaf()) values_structure_ = values->structure();
  values_.clear();
  for (std::size_t leaf = 0; leaf < values->leaves().size(); ++leaf) {
    values_.push_back(padding_value(*values, leaf, op));
  }
}

std::vector<LeafPadding> Padding::of(const StructurePtr& structure) const {
  std::vector<LeafPadding> padding(static_cast<std::size_t>(structure->leaf_count()));
  if (shapes_) check_structure(shapes_->structure, shapes_->leaves.size(), structure, "padded_shapes", op_);
  if (values_structure_ != nullptr)
    check_structure(values_structure_, values_.size(), structure, "padding_values", op_);
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf) {
    padding[leaf] = values_structure_ == nullptr ? values_.front() : values_[leaf];
    if (shapes_) padding[leaf].shape = shapes_->leaves[leaf];
  }
  return padding;
}

std::vector<LeafPadding> Padding::of(const ElementSpec& elements) const {
  std::vector<LeafPadding> padding = of(elements.structure);
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf) {
    const std::optional<Dims>* shape = paddable_shape(elements.leaves[leaf]);
    const std::optional<Dims>& declared = padding[leaf].shape;
    if (shape == nullptr || !*shape || !declared) continue;
    bool fits = (*shape)->size() == declared->size();
    for (std::size_t dim = 0; fits && dim < declared->size(); ++dim)
      fits = (*declared)[dim] == kUnknownDim || (**shape)[dim] <= (*declared)[dim];
    TORCH_CHECK_VALUE(fits, op_, ": ", leaf_name(*elements.structure, leaf), " has the shape ",
                      dims_string(*shape), ", which cannot be padded to ", dims_string(declared), ".");
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
    if (auto* strings = std::get_if<StringSpec>(&batches.leaves[leaf]); strings != nullptr && declared)
      strings->shape = declared;
    batches.leaves[leaf] = prepend_dim(batches.leaves[leaf], batch_size);
  }
  return batches;
}

std::string Padding::describe() const {
  std::ostringstream out;
  if (shapes_) {
    out << ", padded_shapes=";
    const bool several = shapes_->leaves.size() != 1;
    if (several) out << '[';
    const char* separator = "";
    for (const std::optional<Dims>& shape : shapes_->leaves)
      out << std::exchange(separator, ", ") << dims_string(shape);
    if (several) out << ']';
  }
  if (values_structure_ == nullptr && !values_.front().text && values_.front().value.equal(0))
    return out.str();
  out << ", padding_values=";
  if (values_structure_ != nullptr) out << '[';
  const char* separator = "";
  for (const LeafPadding& padding : values_) out << std::exchange(separator, ", ") << to_string(padding);
  if (values_structure_ != nullptr) out << ']';
  return out.str();
}

JoinRows padding_rows(std::shared_ptr<const Padding> padding, std::string_view op) {
  const auto pad = [padding, op](std::span<const Element> rows, BufferPool& pool) {
    return pad_rows(rows, padding->of(rows.front().structure()), pool, op);
  };
  const auto pad_ragged = [padding, op](Element column, BufferPool& pool) {
    const std::vector<LeafPadding> how = padding->of(column.structure());
    return pad_column(std::move(column), how, pool, op);
  };
  return {.join = pad, .join_ragged = pad_ragged, .whole = true};
}

}  // namespace torch_distinput
