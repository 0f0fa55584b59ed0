// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/pad_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>

#include <ATen/core/Formatting.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>

#include "kernels/dense.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

/// The rows of one leaf, and the op to name in messages.
struct PaddedLeaf {
  std::span<const Element> elements;
  std::size_t leaf;
  std::string_view op;

  std::string name() const { return leaf_name(*elements.front().structure(), leaf); }
};

/// Returns the shape that rows of `shapes` are padded to.
Dims padded_shape(const PaddedLeaf& rows, const std::vector<at::IntArrayRef>& shapes,
                  const std::optional<Dims>& declared) {
  const at::IntArrayRef first = shapes.front();
  TORCH_CHECK_VALUE(!declared || declared->size() == first.size(), rows.op, ": ", rows.name(),
                    " has the shape ", dims_text(first),
                    " in row 0 of the batch, but `padded_shapes` gives it ", dims_string(declared),
                    "; the numbers of dims must be equal.");
  Dims shape = declared.value_or(Dims(first.size(), kUnknownDim));
  Dims longest(shape.size(), 0);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    TORCH_CHECK_VALUE(shapes[i].size() == first.size(), rows.op, ": ", rows.name(),
                      " must have one number of dims, but has the shape ", dims_text(first),
                      " in row 0 of the batch and ", dims_text(shapes[i]), " in row ", i, ".");
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      TORCH_CHECK_VALUE(shape[dim] == kUnknownDim || shapes[i][dim] <= shape[dim], rows.op, ": ", rows.name(),
                        " has the shape ", dims_text(shapes[i]), " in row ", i,
                        " of the batch, which is more than `padded_shapes` allows: ", dims_string(declared),
                        ".");
      longest[dim] = std::max(longest[dim], shapes[i][dim]);
    }
  }
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == kUnknownDim) shape[dim] = longest[dim];
  }
  return shape;
}

/// Throws if the bytes of a batch of `shape`, with items of `item` bytes, do not fit into 63 bits.
void check_size(const PaddedLeaf& rows, const Dims& shape, std::int64_t item) {
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  const bool overflows = c10::safe_multiplies_u64(shape, &items) ||
                         c10::mul_overflows(items, static_cast<std::uint64_t>(item), &bytes);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  TORCH_CHECK_VALUE(!overflows && bytes <= kMax, rows.op, ": `padded_shapes` makes ", rows.name(),
                    " a batch of the shape ", dims_text(shape), ", which is more than any memory holds.");
}

/// Returns whether `item` is `wide` up to rounding: integers must be equal, and finite values must stay
/// finite.
bool is_same_value(const at::Tensor& item, const at::Tensor& wide) {
  if (c10::isIntegralType(item.scalar_type(), /*includeBool=*/true))
    return item.to(wide.scalar_type()).equal(wide);
  return at::isfinite(item.to(at::kComplexDouble)).equal(at::isfinite(wide));
}

/// Returns `value` as one item of `dtype`; an undefined tensor stands for zero. Throws c10::ValueError if
/// `dtype` cannot hold it.
at::Tensor padding_item(const PaddedLeaf& rows, const c10::Scalar& value, c10::ScalarType dtype) {
  if (value.equal(0)) return {};
  const at::Tensor wide = at::scalar_tensor(value, value.type());
  at::Tensor item;
  // Only a complex dtype holds a complex value; torch would drop the imaginary part with a warning.
  if (!value.isComplex() || c10::isComplexType(dtype)) item = wide.to(dtype);
  TORCH_CHECK_VALUE(item.defined() && is_same_value(item, wide), rows.op, ": `padding_values` for ",
                    rows.name(), " is ", value, ", which torch.", dtype_name(dtype), " cannot hold.");
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

/// Copies an array of shape `sizes`, packed at `from`, into the first corner of an array of shape `room`,
/// with items of `item` bytes. Returns the end of what was read.
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

std::vector<const at::Tensor*> dense_rows(const PaddedLeaf& leaf) {
  std::vector<const at::Tensor*> rows;
  for (const Element& element : leaf.elements) {
    const at::Tensor& row = *rows.emplace_back(&dense_leaf(element, leaf.leaf, leaf.op, "pad"));
    TORCH_CHECK_VALUE(row.scalar_type() == rows.front()->scalar_type(), leaf.op, ": ", leaf.name(),
                      " must have one dtype, but is ", dtype_text(rows.front()->scalar_type()),
                      " in row 0 of the batch and ", dtype_text(row.scalar_type()), " in row ",
                      rows.size() - 1, ".");
  }
  return rows;
}

void refuse_text(const PaddedLeaf& leaf, const LeafPadding& padding) {
  TORCH_CHECK_VALUE(!padding.text, leaf.op, ": `padding_values` for ", leaf.name(), " is the string ",
                    to_string(padding), ", but a tensor is padded with a number.");
}

/// Pads rows of `shapes`; `write(i, to)` writes the items of row i, packed.
template <class Write>
at::Tensor pad_items(const PaddedLeaf& leaf, const std::vector<at::IntArrayRef>& shapes,
                     c10::ScalarType dtype, const LeafPadding& padding, BufferPool& pool,
                     const Write& write) {
  const Dims shape = padded_shape(leaf, shapes, padding.shape);
  Dims batch_shape{static_cast<std::int64_t>(shapes.size())};
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  const at::Tensor value = padding_item(leaf, padding.value, dtype);
  check_size(leaf, batch_shape, static_cast<std::int64_t>(c10::elementSize(dtype)));
  at::Tensor batch = pooled_tensor(batch_shape, dtype, pool);
  const auto item = static_cast<std::int64_t>(batch.element_size());
  const auto row_bytes = static_cast<std::int64_t>(batch.nbytes()) / batch_shape.front();
  char* to = static_cast<char*>(batch.mutable_data_ptr());
  std::vector<char> packed;
  for (std::size_t i = 0; i < shapes.size(); ++i, to += row_bytes) {
    const std::int64_t used = c10::multiply_integers(shapes[i]) * item;
    if (shapes[i] == at::IntArrayRef(shape) || shape.size() == 1) {
      write(i, to);
      fill(to + used, row_bytes - used, value);
    } else {
      fill(to, row_bytes, value);
      packed.resize(static_cast<std::size_t>(used));
      write(i, packed.data());
      if (!packed.empty()) copy_corner(packed.data(), shapes[i], to, shape, item);
    }
  }
  return batch;
}

at::Tensor pad_dense(const PaddedLeaf& leaf, const LeafPadding& padding, BufferPool& pool) {
  refuse_text(leaf, padding);
  const std::vector<const at::Tensor*> rows = dense_rows(leaf);
  std::vector<at::IntArrayRef> shapes;
  shapes.reserve(rows.size());
  for (const at::Tensor* row : rows) shapes.push_back(row->sizes());
  return pad_items(leaf, shapes, rows.front()->scalar_type(), padding, pool,
                   [&](std::size_t i, char* to) { copy_items(*rows[i], to); });
}

at::Tensor pad_lists(const PaddedLeaf& leaf, const Ragged& lists, const LeafPadding& padding,
                     BufferPool& pool) {
  refuse_text(leaf, padding);
  const auto* const bounds = static_cast<const std::int64_t*>(lists.offsets.const_data_ptr());
  const auto rows = static_cast<std::size_t>(lists.offsets.size(0)) - 1;
  const std::size_t rank = lists.values.sizes().size();
  Dims dims;  // of all rows, one after the other
  dims.reserve(rows * rank);
  std::int64_t item_bytes = static_cast<std::int64_t>(lists.values.element_size());
  for (const std::int64_t dim : lists.values.sizes().slice(1)) item_bytes *= dim;
  for (std::size_t i = 0; i < rows; ++i) {
    dims.push_back(bounds[i + 1] - bounds[i]);
    dims.insert(dims.end(), lists.values.sizes().begin() + 1, lists.values.sizes().end());
  }
  std::vector<at::IntArrayRef> shapes;
  shapes.reserve(rows);
  for (std::size_t i = 0; i < rows; ++i) shapes.emplace_back(dims.data() + i * rank, rank);
  const auto* const items = static_cast<const char*>(lists.values.const_data_ptr());
  return pad_items(leaf, shapes, lists.values.scalar_type(), padding, pool, [&](std::size_t i, char* to) {
    const std::int64_t bytes = (bounds[i + 1] - bounds[i]) * item_bytes;
    if (bytes > 0) std::memcpy(to, items + bounds[i] * item_bytes, static_cast<std::size_t>(bytes));
  });
}

/// Appends the strings of an array of shape `room` to `strings`. Its first corner, of shape `sizes`, holds
/// those of `row` from number `next` on; the rest is `padding`.
void append_strings(const Bytes& row, std::int64_t& next, at::IntArrayRef sizes,
                    std::span<const std::int64_t> room, bool inside, std::string_view padding,
                    std::vector<std::string_view>& strings) {
  if (room.empty()) {
    strings.push_back(inside ? row[next++] : padding);
    return;
  }
  for (std::int64_t i = 0; i < room.front(); ++i)
    append_strings(row, next, sizes.slice(1), room.subspan(1), inside && i < sizes.front(), padding, strings);
}

Bytes pad_strings(const PaddedLeaf& leaf, const LeafPadding& padding) {
  TORCH_CHECK_VALUE(padding.value.equal(0), leaf.op, ": `padding_values` for ", leaf.name(), " is ",
                    padding.value, ", but strings are padded with a string.");
  const LeafRun<Bytes> rows{{leaf.elements, leaf.leaf, leaf.op, /*stacking=*/true}};
  rows.require_same(
      "encoding", [](const Bytes& row) { return row.utf8; },
      [](bool utf8) { return utf8 ? "utf-8" : "bytes"; }, "use str or bytes everywhere");
  std::vector<at::IntArrayRef> shapes;
  for (std::size_t i = 0; i < rows.size(); ++i) shapes.emplace_back(rows[i].shape);
  TORCH_CHECK_VALUE(padding.utf8 || !rows[0].utf8, leaf.op, ": `padding_values` for ", leaf.name(), " is ",
                    to_string(padding), ", which is not utf-8 as the strings are.");
  Dims batch_shape{static_cast<std::int64_t>(rows.size())};
  const Dims shape = padded_shape(leaf, shapes, padding.shape);
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  check_size(leaf, batch_shape, sizeof(std::string_view));
  const std::string text = padding.text.value_or("");
  std::vector<std::string_view> strings;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::int64_t next = 0;
    append_strings(rows[i], next, shapes[i], shape, /*inside=*/true, text, strings);
  }
  Bytes column = Bytes::column(strings, rows[0].utf8);
  column.shape = std::move(batch_shape);
  return column;
}

Leaf pad_leaf(const PaddedLeaf& leaf, const LeafPadding& padding, BufferPool& pool) {
  const LeafPlace place{leaf.elements, leaf.leaf, leaf.op, /*stacking=*/true};
  place.require_one_kind();
  const Leaf& first = leaf.elements.front().leaves()[leaf.leaf];
  if (std::holds_alternative<at::Tensor>(first)) return pad_dense(leaf, padding, pool);
  if (std::holds_alternative<Bytes>(first)) return pad_strings(leaf, padding);
  return join_leaf(place, pool);
}

bool fits(const std::optional<Dims>& declared, at::IntArrayRef sizes) {
  if (!declared) return true;
  return std::equal(declared->begin(), declared->end(), sizes.begin(), sizes.end(),
                    [](std::int64_t dim, std::int64_t size) { return dim == kUnknownDim || dim == size; });
}

/// Whether the rows of `column`, which have one shape, stay as they are. Throws as `padding_item`.
bool stays(const PaddedLeaf& leaf, const Leaf& column, const LeafPadding& padding) {
  if (const auto* const dense = std::get_if<at::Tensor>(&column)) {
    if (padding.text || !fits(padding.shape, dense->sizes().slice(1))) return false;
    padding_item(leaf, padding.value, dense->scalar_type());
    return true;
  }
  if (const auto* const strings = std::get_if<Bytes>(&column))
    return !padding.text && padding.value.equal(0) &&
           fits(padding.shape, at::IntArrayRef(strings->shape).slice(1));
  return true;
}

/// Returns `bytes` with all but printable ASCII written as escapes such as `\xff`.
std::string escaped(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    if (code >= ' ' && code <= '~') {
      out += byte;
    } else {
      out += {'\\', 'x', kDigits[code >> 4U], kDigits[code & 15U]};
    }
  }
  return out;
}

}  // namespace

std::string to_string(const LeafPadding& padding) {
  if (padding.text) return padding.utf8 ? "'" + *padding.text + "'" : "b'" + escaped(*padding.text) + "'";
  std::ostringstream out;
  out << padding.value;
  return out.str();
}

Element pad_rows(std::span<const Element> elements, std::span<const LeafPadding> padding, BufferPool& pool,
                 std::string_view op) {
  TORCH_INTERNAL_ASSERT(!elements.empty(), "pad_rows without elements");
  check_structures(elements, op);
  std::vector<Leaf> leaves;
  leaves.reserve(padding.size());
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf)
    leaves.push_back(pad_leaf({elements, leaf, op}, padding[leaf], pool));
  return {elements.front().structure(), std::move(leaves)};
}

Element pad_column(Element column, std::span<const LeafPadding> padding, BufferPool& pool,
                   std::string_view op) {
  std::vector<Element> rows;  // one by one, where a leaf of one shape is to get another one
  std::vector<Leaf> leaves;
  leaves.reserve(padding.size());
  for (std::size_t leaf = 0; leaf < padding.size(); ++leaf) {
    const PaddedLeaf place{{&column, 1}, leaf, op};
    const Leaf& whole = column.leaves()[leaf];
    if (const auto* const lists = std::get_if<Ragged>(&whole)) {
      leaves.emplace_back(pad_lists(place, *lists, padding[leaf], pool));
    } else if (stays(place, whole, padding[leaf])) {
      leaves.push_back(whole);
    } else {
      for (std::int64_t row = static_cast<std::int64_t>(rows.size()); row < *column.rows(); ++row)
        rows.push_back(take_row(column, row, op));
      leaves.push_back(pad_leaf({rows, leaf, op}, padding[leaf], pool));
    }
  }
  return {column.structure(), std::move(leaves)};
}

}  // namespace torch_distinput
