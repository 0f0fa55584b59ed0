// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>

#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

/// Returns `tensor` in contiguous memory. Unlike `Tensor::contiguous`, it never starts threads.
at::Tensor without_gaps(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  at::Tensor packed =
      pooled_tensor({tensor.sizes().data(), tensor.sizes().size()}, tensor.scalar_type(), *host_pool());
  copy_items(tensor, static_cast<char*>(packed.mutable_data_ptr()));
  return packed;
}

/// The entries of a COO tensor in contiguous memory.
struct Entries {
  at::Tensor indices;  ///< [sparse dims, entries]
  at::Tensor values;   ///< [entries, dense dims...]
  std::int64_t sparse_dims;
  std::int64_t count;
  std::int64_t entry_bytes;

  explicit Entries(const Sparse& leaf)
      : indices(without_gaps(leaf.value._indices())),
        values(without_gaps(leaf.value._values())),
        sparse_dims(leaf.value.sparse_dim()),
        count(values.size(0)),
        entry_bytes(count == 0 ? 0 : static_cast<std::int64_t>(values.nbytes()) / count) {}

  const std::int64_t* dim(std::int64_t index) const {
    return reinterpret_cast<const std::int64_t*>(host_data(indices)) + index * count;
  }
};

/// A COO tensor under construction: entries are appended in order.
class SparseRows {
 public:
  SparseRows(std::int64_t sparse_dims, std::int64_t count, const at::Tensor& like, BufferPool& pool)
      : count_(count), indices_(pooled_tensor(std::array{sparse_dims, count}, at::kLong, pool)) {
    Dims shape = like.sizes().vec();
    shape.front() = count;
    values_ = pooled_tensor(shape, like.scalar_type(), pool);
  }

  /// Appends entries [first, first + count) of `from`. Dim d of the result is dim d + `from_dim` of `from`; a
  /// dim that `from` lacks (`from_dim` is -1) is filled with `shift`. If `from_dim` is 0, `shift` is added to
  /// dim 0.
  void append(const Entries& from, std::int64_t first, std::int64_t count, std::int64_t from_dim,
              std::int64_t shift) {
    const std::int64_t dims = indices_.size(0);
    for (std::int64_t dim = 0; dim < dims; ++dim) {
      const std::int64_t source = dim + from_dim;
      std::int64_t* const to = this->dim(dim) + filled_;
      if (source < 0) {
        std::fill_n(to, count, shift);
      } else {
        const std::int64_t* const indices = from.dim(source) + first;
        const std::int64_t add = dim == 0 && from_dim == 0 ? shift : 0;
        std::transform(indices, indices + count, to, [add](std::int64_t index) { return index + add; });
      }
    }
    if (from.entry_bytes > 0) {
      std::memcpy(static_cast<char*>(values_.mutable_data_ptr()) + filled_ * from.entry_bytes,
                  host_data(from.values) + first * from.entry_bytes,
                  static_cast<std::size_t>(count * from.entry_bytes));
    }
    filled_ += count;
  }

  Sparse finish(at::IntArrayRef shape, bool coalesced) const {
    return {at::_sparse_coo_tensor_unsafe(indices_, values_, shape, values_.options().layout(at::kSparse),
                                          coalesced)};
  }

 private:
  std::int64_t* dim(std::int64_t index) {
    return static_cast<std::int64_t*>(indices_.mutable_data_ptr()) + index * count_;
  }

  std::int64_t count_;
  std::int64_t filled_ = 0;
  at::Tensor indices_;
  at::Tensor values_;
};

/// Returns the runs of entries whose index in dim 0 is in [begin, end): a single run if entries are sorted.
std::vector<std::pair<std::int64_t, std::int64_t>> runs_of_rows(const Entries& entries, bool sorted,
                                                                std::int64_t begin, std::int64_t end) {
  const std::int64_t* const rows = entries.dim(0);
  if (sorted) {
    const std::int64_t* const last = rows + entries.count;
    return {{std::lower_bound(rows, last, begin) - rows, std::lower_bound(rows, last, end) - rows}};
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (std::int64_t i = 0; i < entries.count; ++i) {
    if (rows[i] < begin || rows[i] >= end) continue;
    if (runs.empty() || runs.back().second != i) runs.emplace_back(i, i);
    ++runs.back().second;
  }
  return runs;
}

/// Returns rows [begin, end) or, unless `keeps_dim0`, the one row `begin` without dim 0.
Sparse cut(const Sparse& leaf, std::int64_t begin, std::int64_t end, bool keeps_dim0) {
  const Entries entries(leaf);
  const bool sorted = leaf.value.is_coalesced();
  const auto runs = runs_of_rows(entries, sorted, begin, end);
  std::int64_t count = 0;
  for (const auto& [first, last] : runs) count += last - first;
  SparseRows rows(entries.sparse_dims - (keeps_dim0 ? 0 : 1), count, entries.values, *host_pool());
  for (const auto& [first, last] : runs)
    rows.append(entries, first, last - first, keeps_dim0 ? 0 : 1, -begin);
  Dims shape = leaf.value.sizes().vec();
  shape.front() = end - begin;
  if (!keeps_dim0) shape.erase(shape.begin());
  return rows.finish(shape, sorted);
}

}  // namespace

Sparse join(const LeafRun<Sparse>& run, BufferPool& pool) {
  const auto dims = [&](const Sparse& leaf) { return row_dims(leaf.value.sizes(), run.stacking); };
  run.require_same(
      "dtype", [](const Sparse& leaf) { return leaf.value.scalar_type(); }, dtype_text,
      "map it to one dtype");
  run.require_same("shape", dims, dims_text, "map it to one shape");
  run.require_same(
      "number of sparse dims", [](const Sparse& leaf) { return leaf.value.sparse_dim(); },
      [](std::int64_t dims) { return std::to_string(dims); }, "map it to one");
  std::vector<Entries> parts;
  std::int64_t count = 0;
  bool coalesced = true;
  for (std::size_t i = 0; i < run.size(); ++i) {
    count += parts.emplace_back(run[i]).count;
    coalesced = coalesced && run[i].value.is_coalesced();
  }
  const std::int64_t new_dims = run.stacking ? 1 : 0;
  SparseRows joined(parts.front().sparse_dims + new_dims, count, parts.front().values, pool);
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    joined.append(parts[i], 0, parts[i].count, -new_dims, rows);
    rows += run.stacking ? 1 : run[i].value.size(0);
  }
  Dims shape{rows};
  shape.insert(shape.end(), dims(run[0]).begin(), dims(run[0]).end());
  return joined.finish(shape, coalesced);
}

Sparse slice(const Sparse& leaf, std::int64_t begin, std::int64_t end) {
  return cut(leaf, begin, end, /*keeps_dim0=*/true);
}

Sparse row_of(const Sparse& leaf, std::int64_t row) { return cut(leaf, row, row + 1, /*keeps_dim0=*/false); }

Sparse copy(const Sparse& leaf, BufferPool& pool) {
  const Entries entries(leaf);
  SparseRows fresh(entries.sparse_dims, entries.count, entries.values, pool);
  fresh.append(entries, 0, entries.count, 0, 0);
  return fresh.finish(leaf.value.sizes(), leaf.value.is_coalesced());
}

}  // namespace torch_distinput
