// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/pad_rows.h"

#include <ATen/core/Formatting.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/dense.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

/// The rows of one leaf, and whom to name in messages.
struct DenseRows {
  std::span<const Element> elements;
  std::size_t leaf;
  std::string_view op;

  const at::Tensor& row(std::size_t index) const { return dense_leaf(elements[index], leaf, op, "pad"); }
  std::string name() const { return leaf_name(*elements.front().structure(), leaf); }
};

void check_row(const DenseRows& rows, std::size_t index, const at::Tensor& first) {
  const at::Tensor& row = rows.row(index);
  TORCH_CHECK_VALUE(row.scalar_type() == first.scalar_type(), rows.op, ": ", rows.name(),
                    " must have one dtype, but is torch.", dtype_name(first.scalar_type()),
                    " in row 0 of the batch and torch.", dtype_name(row.scalar_type()), " in row ", index,
                    ".");
  TORCH_CHECK_VALUE(row.dim() == first.dim(), rows.op, ": ", rows.name(),
                    " must have one number of dims, but has the shape ", dims_string(first.sizes().vec()),
                    " in row 0 of the batch and ", dims_string(row.sizes().vec()), " in row ", index, ".");
}

/// The shape that all rows are padded to.
Dims padded_shape(const DenseRows& rows, const std::optional<Dims>& declared) {
  const at::Tensor& first = rows.row(0);
  TORCH_CHECK_VALUE(!declared || static_cast<std::int64_t>(declared->size()) == first.dim(), rows.op, ": ",
                    rows.name(), " has the shape ", dims_string(first.sizes().vec()),
                    " in row 0 of the batch, but `padded_shapes` gives it ", dims_string(declared),
                    "; the numbers of dims must be equal.");
  Dims shape = declared.value_or(Dims(static_cast<std::size_t>(first.dim()), kUnknownDim));
  Dims longest(shape.size(), 0);
  for (std::size_t i = 0; i < rows.elements.size(); ++i) {
    check_row(rows, i, first);
    const at::Tensor& row = rows.row(i);
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      const std::int64_t size = row.size(static_cast<std::int64_t>(dim));
      TORCH_CHECK_VALUE(shape[dim] == kUnknownDim || size <= shape[dim], rows.op, ": ", rows.name(),
                        " has the shape ", dims_string(row.sizes().vec()), " in row ", i,
                        " of the batch, which is more than `padded_shapes` allows: ", dims_string(declared),
                        ".");
      longest[dim] = std::max(longest[dim], size);
    }
  }
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == kUnknownDim) shape[dim] = longest[dim];
  }
  return shape;
}

/// `value` as one item of `dtype`, whose bytes are copied; undefined stands for zeros.
at::Tensor padding_item(const DenseRows& rows, const c10::Scalar& value, c10::ScalarType dtype) {
  if (value.equal(0)) return {};
  const bool is_integral = c10::isIntegralType(dtype, /*includeBool=*/true);
  const at::Tensor wide = at::scalar_tensor(value, value.type());
  const at::Tensor item = wide.to(dtype);
  const bool fits =
      is_integral ? item.to(wide.scalar_type()).equal(wide) : c10::isComplexType(dtype) || !value.isComplex();
  TORCH_CHECK_VALUE(fits, rows.op, ": `padding_values` for ", rows.name(), " is ", value, ", which torch.",
                    dtype_name(dtype), " cannot hold.");
  return item;
}

void fill(char* to, std::int64_t bytes, const at::Tensor& item) {
  if (!item.defined()) {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    return;
  }
  const auto size = static_cast<std::int64_t>(item.element_size());
  for (std::int64_t at = 0; at < bytes; at += size)
    std::memcpy(to + at, item.const_data_ptr(), static_cast<std::size_t>(size));
}

/// Copies a box of `sizes`, packed at `from`, into the corner of a box of `room`; `item` bytes each.
const char* copy_corner(const char* from, at::IntArrayRef sizes, char* to, std::span<const std::int64_t> room,
                        std::int64_t item) {
  std::int64_t step = item;
  for (const std::int64_t dim : room.subspan(1)) step *= dim;
  const std::int64_t count = sizes.front();
  if (sizes.size() == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count * item));
    return from + count * item;
  }
  for (std::int64_t i = 0; i < count; ++i)
    from = copy_corner(from, sizes.slice(1), to + i * step, room.subspan(1), item);
  return from;
}

at::Tensor pad_leaf(const DenseRows& rows, const LeafPadding& padding, BufferPool& pool) {
  const c10::ScalarType dtype = rows.row(0).scalar_type();
  const Dims shape = padded_shape(rows, padding.shape);
  Dims batch_shape{static_cast<std::int64_t>(rows.elements.size())};
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  at::Tensor batch = pooled_tensor(batch_shape, dtype, pool);
  const at::Tensor value = padding_item(rows, padding.value, dtype);
  const auto item = static_cast<std::int64_t>(batch.element_size());
  const auto row_bytes = static_cast<std::int64_t>(batch.nbytes()) / batch_shape.front();
  char* to = static_cast<char*>(batch.mutable_data_ptr());
  std::vector<char> packed;
  for (std::size_t i = 0; i < rows.elements.size(); ++i, to += row_bytes) {
    const at::Tensor& row = rows.row(i);
    if (row.sizes() == at::IntArrayRef(shape)) {
      copy_items(row, to);
      continue;
    }
    fill(to, row_bytes, value);
    if (row.numel() == 0) continue;
    packed.resize(row.nbytes());
    copy_items(row, packed.data());
    copy_corner(packed.data(), row.sizes(), to, shape, item);
  }
  return batch;
}

/// Only dense rows have dims to pad.
Leaf pad_or_join(std::span<const Element> elements, std::size_t leaf, const LeafPadding& padding,
                 BufferPool& pool, std::string_view op) {
  const LeafPlace place{elements, leaf, op, /*stacking=*/true};
  place.require_one_kind();
  if (!std::holds_alternative<at::Tensor>(elements.front().leaves()[leaf])) return join_leaf(place, pool);
  return pad_leaf({elements, leaf, op}, padding, pool);
}

}  // namespace

Element pad_rows(std::span<const Element> elements, std::span<const LeafPadding> padding, BufferPool& pool,
                 std::string_view op) {
  TORCH_INTERNAL_ASSERT(!elements.empty(), "pad_rows without elements");
  check_structures(elements, op);
  std::vector<Leaf> leaves;
  leaves.reserve(padding.size());
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf)
    leaves.push_back(pad_or_join(elements, leaf, padding[leaf], pool, op));
  return {elements.front().structure(), std::move(leaves)};
}

}  // namespace torch_distinput
