// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "core/names.h"
#include "kernels/prefetch.h"
#include "kernels/rows.h"
#include "kernels/sized_copy.h"
#include "runtime/buffer_pool.h"
#include "sources/columns/gather_together.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

std::int64_t row_bytes_of(const at::Tensor& column) {
  auto bytes = static_cast<std::int64_t>(column.element_size());
  for (const std::int64_t dim : column.sizes().slice(1)) bytes *= dim;
  return bytes;
}

const char* data_of(const at::Tensor& tensor) { return static_cast<const char*>(tensor.const_data_ptr()); }

/// Where row i of a run goes.
struct RunSink {
  char* data;
  std::int64_t stride;
  std::span<const std::int64_t> slots;  ///< empty: rows follow each other
  char* row(std::size_t i) const {
    return data + (slots.empty() ? static_cast<std::int64_t>(i) : slots[i]) * stride;
  }
};

RunSink sink_of(const BlockRun& run, std::span<const std::int64_t> slots, const RowSink& sink) {
  if (!slots.empty())
    return {sink.data, sink.row_bytes, slots.subspan(static_cast<std::size_t>(run.first), run.rows.size())};
  return {sink.data + run.first * sink.row_bytes, sink.row_bytes, {}};
}

/// Copies `bytes` bytes a row to a part of the rows of `sink`.
void copy_part(const RowBlock::DenseRows& from, std::span<const std::int64_t> rows, std::int64_t bytes,
               const RunSink& sink) {
  with_known_size(bytes, [&](auto size) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memcpy(sink.row(i), from.data + rows[i] * from.stride, static_cast<std::size_t>(size));
  });
}

std::int64_t count_rows(std::span<const BlockRun> runs) {
  std::int64_t rows = 0;
  for (const BlockRun& run : runs) rows += static_cast<std::int64_t>(run.rows.size());
  return rows;
}

/// Runs of so few rows on average are copied together: a call for each would cost more than the copy, and its
/// misses of the cache would come one after the other.
constexpr std::int64_t kShortRun = 32;

bool are_short(std::span<const BlockRun> runs) {
  return runs.size() > 1 && count_rows(runs) < kShortRun * std::ssize(runs);
}

/// Writes one leaf of runs that follow each other, with one call for all.
void gather_leaf_together(std::size_t leaf, std::span<const BlockRun> runs,
                          std::span<const std::int64_t> slots, const RowSink& sink) {
  const char* const origin = runs.front().block->dense[leaf].data;
  std::vector<std::int64_t> places;  // in bytes from `origin`
  places.reserve(static_cast<std::size_t>(count_rows(runs)));
  for (const BlockRun& run : runs) {
    const auto& [data, stride] = run.block->dense[leaf];
    const auto base = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data) -
                                                reinterpret_cast<std::uintptr_t>(origin));
    for (const std::int64_t row : run.rows) places.push_back(base + row * stride);
  }
  gather_rows(origin, 1, places, slots, sink);
}

/// Writes one leaf.
void gather_leaf(const RowType::LeafSource& source, std::span<const BlockRun> runs,
                 std::span<const std::int64_t> slots, const RowSink& sink) {
  if (source.stored.size() == 1 && are_short(runs))
    return gather_leaf_together(source.stored[0], runs, slots, sink);
  for (const BlockRun& run : runs) {
    RunSink to = sink_of(run, slots, sink);
    if (source.stored.size() == 1) {
      const auto& [data, stride] = run.block->dense[source.stored[0]];
      gather_rows(data, stride, run.rows, to.slots, {to.data, sink.row_bytes});
      continue;
    }
    for (const std::size_t leaf : source.stored) {
      const std::int64_t bytes = row_bytes_of(std::get<at::Tensor>(run.block->value.leaves()[leaf]));
      copy_part(run.block->dense[leaf], run.rows, bytes, to);
      to.data += bytes;
    }
  }
}

/// Calls `visit(block, row)` for each row.
template <class Visit>
void for_each_row(std::span<const BlockRun> runs, const Visit& visit) {
  for (const BlockRun& run : runs) {
    for (const std::int64_t row : run.rows) visit(*run.block, row);
  }
}

const std::int64_t* bounds_of(const at::Tensor& offsets) {
  return static_cast<const std::int64_t*>(offsets.const_data_ptr());
}

/// The strings of one row.
struct StringRow {
  const char* values;
  const std::int64_t* bounds;
};

/// Those of all rows.
std::vector<StringRow> string_rows(std::size_t leaf, std::span<const BlockRun> runs, std::int64_t per_row) {
  std::vector<StringRow> rows;
  rows.reserve(static_cast<std::size_t>(count_rows(runs)));
  for (const BlockRun& run : runs) {
    const auto& column = std::get<Bytes>(run.block->value.leaves()[leaf]);
    const char* const values = data_of(column.values);
    const std::int64_t* const bounds = bounds_of(column.offsets);
    for (const std::int64_t row : run.rows) {
      const std::int64_t* const own = bounds + row * per_row;
      rows.push_back({values + own[0], own});
    }
  }
  return rows;
}

/// Rows of strings that are on the way to the cache while an earlier one is copied, and how much of each:
/// what comes after that, the hardware sees coming.
constexpr std::size_t kStringsAhead = 4;
constexpr std::int64_t kPrefetched = 1024;

void prefetch_strings(const StringRow& row, std::int64_t per_row) {
  const std::int64_t size = row.bounds[per_row] - row.bounds[0];
  if (size > 0) prefetch_lines(row.values, std::min(size, kPrefetched));
}

Bytes gather_strings(std::size_t leaf, std::span<const BlockRun> runs, BufferPool& pool) {
  const auto& first = std::get<Bytes>(runs.front().block->value.leaves()[leaf]);
  std::vector<std::int64_t> shape = first.shape;
  shape.front() = count_rows(runs);
  std::int64_t per_row = 1;
  for (std::size_t dim = 1; dim < shape.size(); ++dim) per_row *= shape[dim];
  const std::vector<StringRow> rows = string_rows(leaf, runs, per_row);
  std::int64_t bytes = 0;
  for (const StringRow& row : rows) bytes += row.bounds[per_row] - row.bounds[0];
  at::Tensor values = pooled_tensor(std::array{bytes}, at::kByte, pool);
  at::Tensor offsets = pooled_tensor(std::array{shape.front() * per_row + 1}, at::kLong, pool);
  auto* const data = static_cast<char*>(values.mutable_data_ptr());
  auto* bound = static_cast<std::int64_t*>(offsets.mutable_data_ptr());
  *bound = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (row + kStringsAhead < rows.size()) prefetch_strings(rows[row + kStringsAhead], per_row);
    const auto& [values, bounds] = rows[row];
    const std::int64_t size = bounds[per_row] - bounds[0];
    if (size > 0) std::memcpy(data + *bound, values, static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < per_row; ++i, ++bound) bound[1] = bound[0] + bounds[i + 1] - bounds[i];
  }
  return {std::move(values), std::move(offsets), std::move(shape), first.utf8};
}

at::Tensor gather_lists(std::size_t leaf, std::span<const BlockRun> runs, BufferPool& pool,
                        const std::string& op, const std::string& name) {
  std::int64_t length = -1;
  for_each_row(runs, [&](const RowBlock& block, std::int64_t row) {
    const std::int64_t* const bounds = bounds_of(std::get<Ragged>(block.value.leaves()[leaf]).offsets) + row;
    const std::int64_t here = bounds[1] - bounds[0];
    if (length < 0) length = here;
    if (here == length) return;
    throw UnequalRowsError(c10::str(op, ": ", name, " has lists of ", length, " and of ", here,
                                    " items in one batch; use padded_batch or ragged_batch, or map it to one "
                                    "shape."));
  });
  const auto& first = std::get<Ragged>(runs.front().block->value.leaves()[leaf]).values;
  std::vector<std::int64_t> shape{count_rows(runs), length};
  shape.insert(shape.end(), first.sizes().begin() + 1, first.sizes().end());
  at::Tensor result = pooled_tensor(shape, first.scalar_type(), pool);
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  const std::int64_t item = row_bytes_of(first);
  for_each_row(runs, [&](const RowBlock& block, std::int64_t row) {
    const auto& column = std::get<Ragged>(block.value.leaves()[leaf]);
    if (length * item > 0)
      std::memcpy(to, data_of(column.values) + bounds_of(column.offsets)[row] * item,
                  static_cast<std::size_t>(length * item));
    to += length * item;
  });
  return result;
}

/// Lists one after the other, with their bounds.
Ragged gather_ragged(std::size_t leaf, std::span<const BlockRun> runs, BufferPool& pool) {
  const auto& first = std::get<Ragged>(runs.front().block->value.leaves()[leaf]).values;
  at::Tensor offsets = pooled_tensor(std::array{count_rows(runs) + 1}, at::kLong, pool);
  auto* bound = static_cast<std::int64_t*>(offsets.mutable_data_ptr());
  *bound = 0;
  for_each_row(runs, [&](const RowBlock& block, std::int64_t row) {
    const std::int64_t* const bounds = bounds_of(std::get<Ragged>(block.value.leaves()[leaf]).offsets) + row;
    bound[1] = bound[0] + bounds[1] - bounds[0];
    ++bound;
  });
  std::vector<std::int64_t> shape = first.sizes().vec();
  shape.front() = *bound;
  at::Tensor values = pooled_tensor(shape, first.scalar_type(), pool);
  auto* to = static_cast<char*>(values.mutable_data_ptr());
  const std::int64_t item = row_bytes_of(first);
  for_each_row(runs, [&](const RowBlock& block, std::int64_t row) {
    const auto& column = std::get<Ragged>(block.value.leaves()[leaf]);
    const std::int64_t* const bounds = bounds_of(column.offsets) + row;
    const std::int64_t size = (bounds[1] - bounds[0]) * item;
    if (size > 0) std::memcpy(to, data_of(column.values) + bounds[0] * item, static_cast<std::size_t>(size));
    to += size;
  });
  return {std::move(values), std::move(offsets)};
}

at::Tensor dense_leaf_of(const RowType& type, std::size_t leaf, std::span<const BlockRun> runs,
                         BufferPool& pool) {
  const auto& spec = std::get<TensorSpec>(type.spec.leaves[leaf]);
  std::vector<std::int64_t> shape = *spec.shape;
  shape.insert(shape.begin(), count_rows(runs));
  at::Tensor result = pooled_tensor(shape, spec.dtype, pool);
  gather_leaf(type.sources[leaf], runs, {},
              {static_cast<char*>(result.mutable_data_ptr()), row_bytes_of(result)});
  return result;
}

/// One row of a column of lists.
at::Tensor list_of(const Ragged& column, std::int64_t row, BufferPool& pool) {
  const std::int64_t* const bounds = bounds_of(column.offsets) + row;
  std::vector<std::int64_t> shape = column.values.sizes().vec();
  shape.front() = bounds[1] - bounds[0];
  at::Tensor list = pooled_tensor(shape, column.values.scalar_type(), pool);
  if (list.numel() > 0)
    std::memcpy(list.mutable_data_ptr(), data_of(column.values) + bounds[0] * row_bytes_of(column.values),
                list.nbytes());
  return list;
}

Leaf row_leaf(const RowType& type, std::size_t leaf, const BlockRun& row, BufferPool& pool) {
  const std::size_t stored = type.sources[leaf].stored[0];
  const Leaf& column = row.block->value.leaves()[stored];
  if (std::holds_alternative<at::Tensor>(column)) {
    const auto& spec = std::get<TensorSpec>(type.spec.leaves[leaf]);
    at::Tensor dense = pooled_tensor(*spec.shape, spec.dtype, pool);
    gather_leaf(type.sources[leaf], {&row, 1}, {},
                {static_cast<char*>(dense.mutable_data_ptr()), static_cast<std::int64_t>(dense.nbytes())});
    return dense;
  }
  if (const auto* const lists = std::get_if<Ragged>(&column)) return list_of(*lists, row.rows[0], pool);
  Bytes strings = gather_strings(stored, {&row, 1}, pool);
  strings.shape.erase(strings.shape.begin());
  if (strings.shape.empty()) strings.offsets = at::Tensor();
  return strings;
}

/// The rows of `runs` as one element, whose lists that vary in length `gather(leaf, stored leaf)` makes.
template <class Gather>
Element columns_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool,
                        const Gather& gather) {
  std::vector<Leaf> leaves;
  leaves.reserve(type.sources.size());
  for (std::size_t leaf = 0; leaf < type.sources.size(); ++leaf) {
    const std::size_t stored = type.sources[leaf].stored[0];
    const Leaf& column = runs.front().block->value.leaves()[stored];
    if (std::holds_alternative<at::Tensor>(column)) {
      leaves.emplace_back(dense_leaf_of(type, leaf, runs, pool));
    } else if (std::holds_alternative<Bytes>(column)) {
      leaves.emplace_back(gather_strings(stored, runs, pool));
    } else {
      leaves.emplace_back(gather(leaf, stored));
    }
  }
  return {type.spec.structure, std::move(leaves)};
}

}  // namespace

void gather_runs(const RowType& type, std::span<const BlockRun> runs, std::span<const std::int64_t> slots,
                 std::span<const RowSink> sinks) {
  if (lie_together(runs)) return gather_together(type, runs, slots, sinks);
  for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf)
    gather_leaf(type.sources[leaf], runs, slots, sinks[leaf]);
}

Element batch_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool,
                      const std::string& op) {
  return columns_of_runs(type, runs, pool, [&](std::size_t leaf, std::size_t stored) {
    return gather_lists(stored, runs, pool, op, leaf_name(*type.spec.structure, leaf));
  });
}

Element ragged_batch_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool) {
  return columns_of_runs(type, runs, pool,
                         [&](std::size_t, std::size_t stored) { return gather_ragged(stored, runs, pool); });
}

std::vector<bool> lists_of(const RowType& type) {
  std::vector<bool> lists;
  for (const LeafSpec& leaf : type.spec.leaves) {
    const auto* const tensor = std::get_if<TensorSpec>(&leaf);
    lists.push_back(tensor != nullptr && !tensor->shape->empty() && tensor->shape->front() == kUnknownDim);
  }
  return lists;
}

std::vector<Element> elements_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool) {
  std::vector<Element> elements;
  for (const BlockRun& run : runs) {
    for (std::size_t i = 0; i < run.rows.size(); ++i) {
      const BlockRun row{run.block, run.rows.subspan(i, 1), 0};
      std::vector<Leaf> leaves;
      leaves.reserve(type.sources.size());
      for (std::size_t leaf = 0; leaf < type.sources.size(); ++leaf)
        leaves.push_back(row_leaf(type, leaf, row, pool));
      elements.emplace_back(type.spec.structure, std::move(leaves));
    }
  }
  return elements;
}

}  // namespace torch_distinput
