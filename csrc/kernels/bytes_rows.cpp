// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/dense.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

/// A view of the strings of a leaf, which lie in one piece of memory.
struct Strings {
  const char* data;
  std::int64_t bytes;
  const std::int64_t* bounds;  ///< the `count` + 1 bounds of the strings; null if all bytes are one string
  std::int64_t count;

  explicit Strings(const Bytes& leaf)
      : data(static_cast<const char*>(leaf.values.const_data_ptr())),
        bytes(static_cast<std::int64_t>(leaf.values.nbytes())),
        bounds(nullptr),
        count(leaf.count()) {
    if (!leaf.offsets.defined()) return;
    bounds = static_cast<const std::int64_t*>(leaf.offsets.const_data_ptr());
    data += bounds[0];
    bytes = bounds[count] - bounds[0];
  }
  /// The `number` strings of a column from string `first` on.
  Strings(const Bytes& column, std::int64_t first, std::int64_t number)
      : data(static_cast<const char*>(column.values.const_data_ptr())),
        bounds(static_cast<const std::int64_t*>(column.offsets.const_data_ptr()) + first),
        count(number) {
    data += bounds[0];
    bytes = bounds[count] - bounds[0];
  }
};

/// A column under construction: strings are appended in order.
class Column {
 public:
  Column(std::int64_t count, std::int64_t bytes, BufferPool& pool)
      : values_(pooled_tensor(std::array{bytes}, at::kByte, pool)),
        offsets_(pooled_tensor(std::array{count + 1}, at::kLong, pool)),
        data_(static_cast<char*>(values_.mutable_data_ptr())),
        bound_(static_cast<std::int64_t*>(offsets_.mutable_data_ptr())) {
    *bound_ = 0;
  }

  void append(const Strings& strings) {
    if (strings.bytes > 0)
      std::memcpy(data_ + *bound_, strings.data, static_cast<std::size_t>(strings.bytes));
    const std::int64_t before = *bound_;
    for (std::int64_t i = 1; i < strings.count; ++i)
      *++bound_ = before + strings.bounds[i] - strings.bounds[0];
    if (strings.count > 0) *++bound_ = before + strings.bytes;
  }

  Bytes finish(std::vector<std::int64_t> shape, bool utf8) {
    return {std::move(values_), std::move(offsets_), std::move(shape), utf8};
  }

 private:
  at::Tensor values_;
  at::Tensor offsets_;
  char* data_;
  std::int64_t* bound_;
};

std::string encoding_text(bool utf8) { return utf8 ? "utf-8" : "bytes"; }

/// The number of strings in one row of `leaf`.
std::int64_t strings_per_row(const Bytes& leaf) {
  return c10::multiply_integers(leaf.shape.begin() + 1, leaf.shape.end());
}

}  // namespace

Bytes join(const LeafRun<Bytes>& run, BufferPool& pool) {
  const auto dims = [&](const Bytes& leaf) { return row_dims(leaf.shape, run.stacking); };
  run.require_same(
      "encoding", [](const Bytes& leaf) { return leaf.utf8; }, encoding_text, "use str or bytes everywhere");
  run.require_same("shape", dims, dims_text, "map it to one shape");
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const Strings strings(run[i]);
    bytes += strings.bytes;
    count += strings.count;
    rows += run.stacking ? 1 : run[i].shape.front();
  }
  Column column(count, bytes, pool);
  for (std::size_t i = 0; i < run.size(); ++i) column.append(Strings(run[i]));
  std::vector<std::int64_t> shape{rows};
  shape.insert(shape.end(), dims(run[0]).begin(), dims(run[0]).end());
  return column.finish(std::move(shape), run[0].utf8);
}

Bytes slice(const Bytes& leaf, std::int64_t begin, std::int64_t end) {
  const std::int64_t strings = strings_per_row(leaf);
  Bytes result{leaf.values, share_rows(leaf.offsets, begin * strings, end * strings + 1), leaf.shape,
               leaf.utf8};
  result.shape.front() = end - begin;
  return result;
}

Bytes row_of(const Bytes& leaf, std::int64_t row) {
  if (leaf.shape.size() == 1) {
    const auto* const bounds = static_cast<const std::int64_t*>(leaf.offsets.const_data_ptr()) + row;
    return {share_rows(leaf.values, bounds[0], bounds[1]), {}, {}, leaf.utf8};
  }
  Bytes result = slice(leaf, row, row + 1);
  result.shape.erase(result.shape.begin());
  return result;
}

Bytes gather(const Bytes& leaf, std::span<const std::int64_t> rows, BufferPool& pool) {
  const std::int64_t per_row = strings_per_row(leaf);
  std::int64_t bytes = 0;
  for (const std::int64_t row : rows) bytes += Strings(leaf, row * per_row, per_row).bytes;
  std::vector<std::int64_t> shape = leaf.shape;
  shape.front() = static_cast<std::int64_t>(rows.size());
  Column column(shape.front() * per_row, bytes, pool);
  for (const std::int64_t row : rows) column.append(Strings(leaf, row * per_row, per_row));
  return column.finish(std::move(shape), leaf.utf8);
}

Bytes copy(const Bytes& leaf, BufferPool& pool) {
  const Strings strings(leaf);
  Column column(strings.count, strings.bytes, pool);
  column.append(strings);
  return column.finish(leaf.shape, leaf.utf8);
}

}  // namespace torch_distinput
