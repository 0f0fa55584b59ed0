// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/records/feature_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>

#include "io/utf8.h"
#include "kernels/rows.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

FeatureType type_of(ListKind kind) {
  return kind == ListKind::kBytes   ? FeatureType::kBytes
         : kind == ListKind::kFloat ? FeatureType::kFloat
                                    : FeatureType::kInt64;
}

std::int64_t items_in(const Dims& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Dims joined(const Dims& a, const Dims& b) {
  Dims dims = a;
  dims.insert(dims.end(), b.begin(), b.end());
  return dims;
}

template <class Number>
Number* data_of(const at::Tensor& tensor) {
  return static_cast<Number*>(tensor.mutable_data_ptr());
}

/// Calls `use(Number{})` with the C++ type of a feature of numbers.
template <class Use>
auto with_number(FeatureType type, Use use) {
  return type == FeatureType::kFloat ? use(float{}) : use(std::int64_t{});
}

/// Strings that are appended to a column under construction, whose size is not known before.
class StringColumn {
 public:
  StringColumn() { bounds_.push_back(0); }

  void append(std::string_view text) {
    bytes_ += text;
    bounds_.push_back(static_cast<std::int64_t>(bytes_.size()));
  }
  void reserve(std::int64_t count) { bounds_.reserve(static_cast<std::size_t>(count) + 1); }

  /// Without dims, the column must hold one string, which becomes a single one.
  Bytes finish(Dims shape, bool utf8, BufferPool& pool) const {
    const auto size = static_cast<std::int64_t>(bytes_.size());
    Bytes strings{pooled_tensor(std::array{size}, at::kByte, pool), {}, std::move(shape), utf8};
    if (size > 0) std::memcpy(strings.values.mutable_data_ptr(), bytes_.data(), bytes_.size());
    if (strings.shape.empty()) return strings;
    const auto count = static_cast<std::int64_t>(bounds_.size());
    strings.offsets = pooled_tensor(std::array{count}, at::kLong, pool);
    std::copy(bounds_.begin(), bounds_.end(), data_of<std::int64_t>(strings.offsets));
    return strings;
  }

 private:
  std::string bytes_;
  std::vector<std::int64_t> bounds_;
};

[[noreturn]] void refuse_count(const FeatureColumn& column, std::int64_t record, std::int64_t count,
                               const Dims& shape) {
  column.refuse(record, " must have " + std::to_string(items_in(shape)) +
                            " values (shape=" + dims_string(shape) + "), but has " + std::to_string(count));
}

/// Whether `record` has the feature. Throws if it is missing and has no default.
bool has_feature(const FeatureColumn& column, const FixedLenFeature& feature, std::int64_t record) {
  if (column.list(record).kind != ListKind::kNone) return true;
  // A feature without values may be stored without a list.
  if (!feature.default_value && items_in(feature.shape) > 0)
    column.refuse(record, " is required, but is missing; give it a `default_value`");
  return false;
}

template <class Number>
Leaf read_fixed_numbers(const FeatureColumn& column, const FixedLenFeature& feature, BufferPool& pool) {
  const std::int64_t items = items_in(feature.shape);
  at::Tensor values = pooled_tensor(joined(column.found.batch, feature.shape), dtype_of(feature.type), pool);
  auto* to = data_of<Number>(values);
  for (std::int64_t record = 0; record < column.found.records; ++record, to += items) {
    if (has_feature(column, feature, record)) {
      const std::int64_t count = column.read(record, to, items);
      if (count != items) refuse_count(column, record, count, feature.shape);
    } else if (items > 0) {
      const auto& given = std::get<at::Tensor>(*feature.default_value);
      std::memcpy(to, given.const_data_ptr(), static_cast<std::size_t>(items) * sizeof(Number));
    }
  }
  return values;
}

Leaf read_fixed_strings(const FeatureColumn& column, const FixedLenFeature& feature, BufferPool& pool) {
  const std::int64_t items = items_in(feature.shape);
  StringColumn strings;
  strings.reserve(items * column.found.records);
  for (std::int64_t record = 0; record < column.found.records; ++record) {
    if (has_feature(column, feature, record)) {
      const std::int64_t count = column.strings(record, [&](std::string_view text) { strings.append(text); });
      if (count != items) refuse_count(column, record, count, feature.shape);
    } else {
      for (std::int64_t i = 0; i < items; ++i) strings.append(std::get<Bytes>(*feature.default_value)[i]);
    }
  }
  return strings.finish(joined(column.found.batch, feature.shape), feature.type == FeatureType::kText, pool);
}

/// The number of values before each record, and of all records.
std::vector<std::int64_t> begins_of(const FeatureColumn& column) {
  std::vector<std::int64_t> begins{0};
  for (std::int64_t record = 0; record < column.found.records; ++record)
    begins.push_back(begins.back() + column.count(record));
  return begins;
}

/// The values of all records, one after the other.
at::Tensor read_numbers(const FeatureColumn& column, const std::vector<std::int64_t>& begins,
                        BufferPool& pool) {
  at::Tensor values = pooled_tensor(std::array{begins.back()}, dtype_of(column.type), pool);
  with_number(column.type, [&]<class Number>(Number) {
    for (std::size_t record = 0; record + 1 < begins.size(); ++record)
      column.read(static_cast<std::int64_t>(record), data_of<Number>(values) + begins[record],
                  begins[record + 1] - begins[record]);
  });
  return values;
}

Leaf coo_tensor(const at::Tensor& indices, const at::Tensor& values, const Dims& shape, bool coalesced) {
  return Sparse{
      at::_sparse_coo_tensor_unsafe(indices, values, shape, values.options().layout(at::kSparse), coalesced)};
}

}  // namespace

c10::ScalarType dtype_of(FeatureType type) {
  if (is_strings(type)) return at::kByte;
  return type == FeatureType::kFloat ? at::kFloat : at::kLong;
}

const char* type_name(FeatureType type) {
  switch (type) {
    case FeatureType::kFloat:
      return "float32";
    case FeatureType::kInt64:
      return "int64";
    case FeatureType::kBytes:
      return "bytes";
    case FeatureType::kText:
      break;
  }
  return "str";
}

const WireList& FeatureColumn::list(std::int64_t record) const {
  const WireList& list = found.list(record, place);
  if (list.kind == ListKind::kNone) return list;
  const FeatureType stored = type_of(list.kind);
  if (stored != type && !(is_strings(type) && is_strings(stored)))
    refuse(record, std::string(" must be ") + type_name(type) + ", but holds " + type_name(stored));
  return list;
}

std::int64_t FeatureColumn::count(std::int64_t record) const {
  if (is_strings(type)) return strings(record, [](std::string_view) {});
  return with_number(type, [&]<class Number>(Number) { return read<Number>(record, nullptr, 0); });
}

void FeatureColumn::refuse(std::int64_t record, const std::string& problem) const {
  throw InvalidArgumentError(found.op + ": " + (*found.name)(record) + ": feature '" + key + "'" + problem +
                             ".");
}

std::int64_t FeatureColumn::checked(std::int64_t record, std::int64_t count) const {
  if (count < 0) refuse(record, " is malformed: its list is not a valid protobuf message");
  return count;
}

void FeatureColumn::check_text(std::int64_t record, std::string_view text) const {
  const std::size_t valid = utf8_prefix({text.data(), text.size()});
  if (valid < text.size())
    refuse(record,
           " must be UTF-8, but byte " + std::to_string(valid) + " of a string is not; read it as bytes");
}

Leaf read_fixed(const FeatureColumn& column, const FixedLenFeature& feature, BufferPool& pool) {
  if (is_strings(feature.type)) return read_fixed_strings(column, feature, pool);
  return feature.type == FeatureType::kFloat ? read_fixed_numbers<float>(column, feature, pool)
                                             : read_fixed_numbers<std::int64_t>(column, feature, pool);
}

Leaf read_ragged(const FeatureColumn& column, BufferPool& pool) {
  const bool single = column.found.batch.empty();
  if (is_strings(column.type)) {
    StringColumn strings;
    const std::int64_t count = column.strings(0, [&](std::string_view text) { strings.append(text); });
    return strings.finish({count}, column.type == FeatureType::kText, pool);
  }
  const std::vector<std::int64_t> begins = begins_of(column);
  at::Tensor values = read_numbers(column, begins, pool);
  if (single) return values;
  at::Tensor offsets = pooled_tensor(std::array{static_cast<std::int64_t>(begins.size())}, at::kLong, pool);
  std::copy(begins.begin(), begins.end(), data_of<std::int64_t>(offsets));
  return Ragged{std::move(values), std::move(offsets)};
}

Leaf read_sparse_lists(const FeatureColumn& column, BufferPool& pool) {
  const std::vector<std::int64_t> begins = begins_of(column);
  const std::int64_t total = begins.back();
  const bool single = column.found.batch.empty();
  at::Tensor indices = pooled_tensor(std::array{std::int64_t{single ? 1 : 2}, total}, at::kLong, pool);
  auto* rows = single ? nullptr : data_of<std::int64_t>(indices);
  auto* columns = data_of<std::int64_t>(indices) + (single ? 0 : total);
  std::int64_t most = 0;
  for (std::size_t record = 0; record + 1 < begins.size(); ++record) {
    const std::int64_t count = begins[record + 1] - begins[record];
    most = std::max(most, count);
    if (rows != nullptr) rows = std::fill_n(rows, count, static_cast<std::int64_t>(record));
    std::iota(columns, columns + count, 0);
    columns += count;
  }
  return coo_tensor(indices, read_numbers(column, begins, pool), joined(column.found.batch, {most}),
                    /*coalesced=*/true);
}

Leaf read_sparse(const FeatureColumn& values, const std::vector<FeatureColumn>& indices,
                 const SparseFeature& feature, BufferPool& pool) {
  const std::vector<std::int64_t> begins = begins_of(values);
  const std::int64_t total = begins.back();
  const std::size_t batch_dims = values.found.batch.size();
  const std::size_t dims = batch_dims + indices.size();
  // The places of all values, dim by dim, and then the order in which they are stored.
  std::vector<std::vector<std::int64_t>> places(dims,
                                                std::vector<std::int64_t>(static_cast<std::size_t>(total)));
  for (std::size_t record = 0; record + 1 < begins.size(); ++record) {
    const std::int64_t count = begins[record + 1] - begins[record];
    if (batch_dims > 0)
      std::fill_n(places[0].begin() + begins[record], count, static_cast<std::int64_t>(record));
    for (std::size_t dim = 0; dim < indices.size(); ++dim) {
      auto* const to = places[batch_dims + dim].data() + begins[record];
      const auto number = static_cast<std::int64_t>(record);
      const std::int64_t found = indices[dim].read(number, to, count);
      if (found != count) {
        indices[dim].refuse(number, " must have as many values as '" + feature.value_key + "', " +
                                        std::to_string(count) + ", but has " + std::to_string(found));
      }
      for (std::int64_t i = 0; i < count; ++i) {
        if (to[i] >= 0 && to[i] < feature.sizes[dim]) continue;
        indices[dim].refuse(number, " must be in [0, " + std::to_string(feature.sizes[dim]) +
                                        "), but one is " + std::to_string(to[i]));
      }
    }
  }
  const auto before = [&](std::size_t a, std::size_t b) {
    for (const auto& place : places)
      if (place[a] != place[b]) return place[a] < place[b];
    return false;
  };
  std::vector<std::size_t> order(static_cast<std::size_t>(total));
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!feature.already_sorted) std::stable_sort(order.begin(), order.end(), before);
  bool coalesced = true;
  for (std::size_t i = 1; i < order.size(); ++i) coalesced = coalesced && before(order[i - 1], order[i]);
  at::Tensor coordinates = pooled_tensor(std::array{static_cast<std::int64_t>(dims), total}, at::kLong, pool);
  for (std::size_t dim = 0; dim < dims; ++dim) {
    auto* const to = data_of<std::int64_t>(coordinates) + static_cast<std::int64_t>(dim) * total;
    for (std::size_t i = 0; i < order.size(); ++i) to[i] = places[dim][order[i]];
  }
  const at::Tensor read = read_numbers(values, begins, pool);
  at::Tensor sorted = pooled_tensor(std::array{total}, read.scalar_type(), pool);
  with_number(values.type, [&]<class Number>(Number) {
    for (std::size_t i = 0; i < order.size(); ++i)
      data_of<Number>(sorted)[i] = data_of<Number>(read)[order[i]];
  });
  return coo_tensor(coordinates, sorted, joined(values.found.batch, feature.sizes), coalesced);
}

}  // namespace torch_distinput
