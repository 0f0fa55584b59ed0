// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/arrow_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

using Valid = std::optional<std::vector<bool>>;

/// A string in the form of a view: 12 bytes or fewer lie in it, others in a buffer.
struct StringView {
  std::int32_t size;
  std::array<char, 4> prefix;
  std::int32_t buffer;
  std::int32_t offset;
};
constexpr std::int32_t kInlineSize = 12;
/// The buffers of long strings follow validity and views; the sizes of these buffers come last.
constexpr std::int64_t kFirstDataBuffer = 2;

bool is_valid(const Valid& valid, std::int64_t row) {
  return !valid || (*valid)[static_cast<std::size_t>(row)];
}

at::Tensor shared(const void* data, std::int64_t count, c10::ScalarType dtype, const ArrowBatch& batch) {
  // These tensors are never written to: elements are copies.
  return at::from_blob(const_cast<void*>(data), {count}, [batch](void*) {}, at::TensorOptions(dtype));
}

StringView view_at(const ArrowArray& array, std::int64_t index) {
  StringView view;
  std::memcpy(&view, static_cast<const char*>(array.buffers[1]) + index * std::int64_t{sizeof(view)},
              sizeof(view));
  return view;
}

std::string_view text_of(const ArrowArray& array, std::int64_t index, const StringView& view) {
  const auto size = static_cast<std::size_t>(view.size);
  const char* const own = static_cast<const char*>(array.buffers[1]) + index * std::int64_t{sizeof(view)} + 4;
  if (view.size <= kInlineSize) return {own, size};
  return {static_cast<const char*>(array.buffers[kFirstDataBuffer + view.buffer]) + view.offset, size};
}

Bytes column_of(const std::vector<std::string_view>& texts, std::vector<std::int64_t> shape, bool utf8) {
  Bytes column = Bytes::column(texts, utf8);
  column.shape = std::move(shape);
  return column;
}

/// `value` in `dtype`. Throws c10::ValueError where that cannot hold it.
at::Tensor number_of(const c10::Scalar& value, c10::ScalarType dtype) {
  if (c10::isFloatingType(dtype)) return at::full({}, value, at::TensorOptions(dtype));
  const bool whole = value.isIntegral(/*includeBool=*/true);
  const std::int64_t number = whole ? value.toLong() : 0;
  at::Tensor result = at::full({}, number, at::TensorOptions(at::kLong)).to(dtype);
  TORCH_CHECK_VALUE(whole && result.to(at::kLong).item<std::int64_t>() == number, "nulls: the value ", value,
                    " does not fit a column of ", dtype_name(dtype), ".");
  return result;
}

void fill_dense(at::Tensor& leaf, const std::vector<bool>& valid, const NullRule& rule) {
  leaf = leaf.clone();
  if (leaf.numel() == 0) return;
  const bool has_value = rule.kind == NullRule::Kind::kFill;
  const at::Tensor fill = number_of(has_value ? std::get<c10::Scalar>(rule.value) : 0, leaf.scalar_type());
  const std::size_t item = leaf.element_size();
  const std::size_t row_bytes = leaf.nbytes() / static_cast<std::size_t>(leaf.size(0));
  char* row = static_cast<char*>(leaf.mutable_data_ptr());
  for (const bool there : valid) {
    for (std::size_t at = 0; !there && at < row_bytes; at += item)
      std::memcpy(row + at, fill.const_data_ptr(), item);
    row += row_bytes;
  }
}

void fill_bytes(Bytes& leaf, const std::vector<bool>& valid, const NullRule& rule) {
  const auto* const text = std::get_if<std::string>(&rule.value);
  const std::string_view fill = text == nullptr ? std::string_view() : *text;
  const std::int64_t per_row = valid.empty() ? 1 : leaf.count() / static_cast<std::int64_t>(valid.size());
  std::vector<std::string_view> texts(static_cast<std::size_t>(leaf.count()), fill);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (valid[i / static_cast<std::size_t>(per_row)]) texts[i] = leaf[static_cast<std::int64_t>(i)];
  }
  leaf = column_of(texts, leaf.shape, leaf.utf8);
}

/// Absent lists are empty; with a value to fill in they are too, because no length is given.
void fill_lists(Ragged& leaf, const std::vector<bool>& valid) {
  const auto* const before = static_cast<const std::int64_t*>(leaf.offsets.const_data_ptr());
  at::Tensor offsets = at::empty_like(leaf.offsets);
  auto* const bounds = static_cast<std::int64_t*>(offsets.mutable_data_ptr());
  at::Tensor values = at::empty_like(leaf.values);
  const std::size_t item =
      leaf.values.numel() == 0 ? 0 : leaf.values.nbytes() / static_cast<std::size_t>(leaf.values.size(0));
  bounds[0] = 0;
  for (std::size_t row = 0; row < valid.size(); ++row) {
    const std::int64_t size = valid[row] ? before[row + 1] - before[row] : 0;
    bounds[row + 1] = bounds[row] + size;
    if (size == 0 || item == 0) continue;
    std::memcpy(
        static_cast<char*>(values.mutable_data_ptr()) + static_cast<std::size_t>(bounds[row]) * item,
        static_cast<const char*>(leaf.values.const_data_ptr()) + static_cast<std::size_t>(before[row]) * item,
        static_cast<std::size_t>(size) * item);
  }
  leaf = {values.slice(0, 0, bounds[valid.size()]), std::move(offsets)};
}

}  // namespace

at::Tensor number_column(const void* data, c10::ScalarType stored, std::int64_t begin, std::int64_t count,
                         c10::ScalarType dtype, const ArrowBatch& batch) {
  const auto item = static_cast<std::int64_t>(c10::elementSize(stored));
  const char* const first = static_cast<const char*>(data) + begin * item;
  if (count == 0) return at::empty({0}, dtype);
  if (reinterpret_cast<std::uintptr_t>(first) % static_cast<std::uintptr_t>(item) == 0) {
    at::Tensor column = shared(first, count, stored, batch);
    return dtype == stored ? column : column.to(dtype);
  }
  at::Tensor aligned = at::empty({count}, stored);
  std::memcpy(aligned.mutable_data_ptr(), first, aligned.nbytes());
  return aligned.to(dtype);
}

at::Tensor bool_column(const std::uint8_t* bits, std::int64_t begin, std::int64_t count,
                       c10::ScalarType dtype) {
  at::Tensor column = at::empty({count}, at::kBool);
  auto* const items = static_cast<bool*>(column.mutable_data_ptr());
  for (std::int64_t i = 0; i < count; ++i) items[i] = bit_at(bits, begin + i);
  return column.to(dtype);
}

at::Tensor shared_bytes(const void* data, std::int64_t size, const ArrowBatch& batch) {
  return size == 0 ? at::empty({0}, at::kByte) : shared(data, size, at::kByte, batch);
}

at::Tensor offsets_column(const void* data, bool wide, std::int64_t begin, std::int64_t count,
                          const ArrowBatch& batch) {
  // The offsets of an array without items may be missing.
  if (count == 0) return at::zeros({1}, at::kLong);
  return number_column(data, wide ? at::kLong : at::kInt, begin, count + 1, at::kLong, batch);
}

std::int64_t find_bad_offset(const at::Tensor& offsets) {
  const auto* const bounds = static_cast<const std::int64_t*>(offsets.const_data_ptr());
  for (std::int64_t row = 0; row + 1 < offsets.numel(); ++row) {
    if (bounds[row] < 0 || bounds[row + 1] < bounds[row]) return row;
  }
  return -1;
}

at::Tensor rebased(const at::Tensor& offsets) { return offsets.sub(offsets[0]); }

Bytes fixed_bytes_column(const void* data, std::int64_t begin, std::int64_t count, std::int64_t size,
                         const ArrowBatch& batch) {
  at::Tensor offsets = at::arange(count + 1, at::TensorOptions(at::kLong)).mul_(size);
  return {shared_bytes(static_cast<const char*>(data) + begin * size, count * size, batch),
          std::move(offsets),
          {count},
          false};
}

std::int64_t find_bad_view(const ArrowArray& array, std::int64_t begin, std::int64_t count,
                           const Valid& valid) {
  const std::int64_t buffers = array.n_buffers - kFirstDataBuffer - 1;
  const auto* const sizes = static_cast<const std::int64_t*>(array.buffers[array.n_buffers - 1]);
  for (std::int64_t row = 0; row < count; ++row) {
    if (!is_valid(valid, row)) continue;
    const StringView view = view_at(array, begin + row);
    if (view.size < 0) return row;
    if (view.size <= kInlineSize) continue;
    if (view.buffer < 0 || view.buffer >= buffers || view.offset < 0) return row;
    if (std::int64_t{view.offset} + view.size > sizes[view.buffer]) return row;
  }
  return -1;
}

Bytes view_column(const ArrowArray& array, std::int64_t begin, std::int64_t count, const Valid& valid,
                  bool utf8) {
  std::vector<std::string_view> texts(static_cast<std::size_t>(count));
  // An inline string lies in the array's own memory, which outlives this call.
  for (std::int64_t row = 0; row < count; ++row) {
    if (is_valid(valid, row))
      texts[static_cast<std::size_t>(row)] = text_of(array, begin + row, view_at(array, begin + row));
  }
  return column_of(texts, {count}, utf8);
}

std::int64_t find_bad_index(const at::Tensor& indices, std::int64_t size, const Valid& valid) {
  const auto* const index = static_cast<const std::int64_t*>(indices.const_data_ptr());
  for (std::int64_t row = 0; row < indices.numel(); ++row) {
    if (is_valid(valid, row) && (index[row] < 0 || index[row] >= size)) return row;
  }
  return -1;
}

Leaf take_values(const Leaf& values, const at::Tensor& indices, const Valid& valid) {
  const auto* const index = static_cast<const std::int64_t*>(indices.const_data_ptr());
  const std::int64_t rows = indices.numel();
  if (const auto* const strings = std::get_if<Bytes>(&values)) {
    std::vector<std::string_view> texts(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      if (is_valid(valid, row)) texts[static_cast<std::size_t>(row)] = (*strings)[index[row]];
    }
    return column_of(texts, {rows}, strings->utf8);
  }
  const auto& numbers = std::get<at::Tensor>(values);
  at::Tensor taken = at::zeros({rows}, numbers.options());
  const std::size_t item = numbers.element_size();
  const auto* const from = static_cast<const char*>(numbers.const_data_ptr());
  auto* const to = static_cast<char*>(taken.mutable_data_ptr());
  for (std::int64_t row = 0; row < rows; ++row) {
    if (is_valid(valid, row))
      std::memcpy(to + static_cast<std::size_t>(row) * item,
                  from + static_cast<std::size_t>(index[row]) * item, item);
  }
  return taken;
}

Leaf with_list_dim(Leaf leaf, std::int64_t rows, std::int64_t size) {
  if (auto* const strings = std::get_if<Bytes>(&leaf)) {
    std::vector<std::int64_t> shape{rows, size};
    shape.insert(shape.end(), strings->shape.begin() + 1, strings->shape.end());
    strings->shape = std::move(shape);
    return leaf;
  }
  const auto& items = std::get<at::Tensor>(leaf);
  std::vector<std::int64_t> shape{rows, size};
  shape.insert(shape.end(), items.sizes().begin() + 1, items.sizes().end());
  return items.view(shape);
}

void fill_rows(Leaf& leaf, const std::vector<bool>& valid, const NullRule& rule) {
  if (auto* const dense = std::get_if<at::Tensor>(&leaf)) return fill_dense(*dense, valid, rule);
  if (auto* const strings = std::get_if<Bytes>(&leaf)) return fill_bytes(*strings, valid, rule);
  fill_lists(std::get<Ragged>(leaf), valid);
}

at::Tensor mask_leaf(const Valid& valid, std::int64_t rows) {
  at::Tensor mask = at::ones({rows}, at::kBool);
  if (!valid) return mask;
  auto* const items = static_cast<bool*>(mask.mutable_data_ptr());
  std::copy(valid->begin(), valid->end(), items);
  return mask;
}

}  // namespace torch_distinput
