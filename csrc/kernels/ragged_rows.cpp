// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

const std::int64_t* bounds_of(const Ragged& leaf) {
  return reinterpret_cast<const std::int64_t*>(host_data(leaf.offsets));
}

std::int64_t rows_of(const Ragged& leaf) { return leaf.offsets.size(0) - 1; }

/// The part of `leaf.values` that belongs to the rows of `leaf`, which may be a slice.
at::Tensor used_values(const Ragged& leaf) {
  const std::int64_t* const bounds = bounds_of(leaf);
  return share_rows(leaf.values, bounds[0], bounds[rows_of(leaf)]);
}

/// A ragged leaf under construction: rows are appended in order.
class RaggedRows {
 public:
  RaggedRows(std::int64_t rows, std::int64_t items, const at::Tensor& like, BufferPool& pool)
      : offsets_(pooled_tensor(std::array{rows + 1}, at::kLong, pool)),
        bound_(static_cast<std::int64_t*>(offsets_.mutable_data_ptr())) {
    Dims shape = like.sizes().vec();
    shape.front() = items;
    values_ = pooled_tensor(shape, like.scalar_type(), pool);
    to_ = static_cast<char*>(values_.mutable_data_ptr());
    *bound_ = 0;
  }

  void append_row(const at::Tensor& row) {
    append_values(row);
    bound_[1] = bound_[0] + row.size(0);
    ++bound_;
  }

  void append(const Ragged& leaf) {
    append_values(used_values(leaf));
    const std::int64_t* const bounds = bounds_of(leaf);
    for (std::int64_t i = 0; i < rows_of(leaf); ++i, ++bound_)
      bound_[1] = bound_[0] + bounds[i + 1] - bounds[i];
  }

  Ragged finish() { return {std::move(values_), std::move(offsets_)}; }

 private:
  void append_values(const at::Tensor& values) {
    copy_items(values, to_);
    to_ += values.nbytes();
  }

  at::Tensor values_;
  at::Tensor offsets_;
  std::int64_t* bound_;
  char* to_ = nullptr;
};

}  // namespace

Ragged join(const LeafRun<Ragged>& run, BufferPool& pool) {
  TORCH_CHECK_VALUE(!run.stacking, run.name(),
                    " is ragged, so that a batch of it would have two ragged dims, but one is the limit; map "
                    "it to dense rows and call ragged_batch.");
  run.require_same(
      "dtype", [](const Ragged& leaf) { return leaf.values.scalar_type(); }, dtype_text,
      "map it to one dtype");
  run.require_same(
      "shape beyond the ragged dim", [](const Ragged& leaf) { return leaf.values.sizes().slice(1); },
      dims_text, "map it to one shape");
  std::int64_t rows = 0;
  std::int64_t items = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    rows += rows_of(run[i]);
    items += used_values(run[i]).size(0);
  }
  RaggedRows joined(rows, items, run[0].values, pool);
  for (std::size_t i = 0; i < run.size(); ++i) joined.append(run[i]);
  return joined.finish();
}

Ragged join_ragged(const LeafRun<at::Tensor>& run, BufferPool& pool) {
  std::int64_t items = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const at::Tensor& row = dense_leaf(run.elements[i], run.leaf, run.op, "stack");
    TORCH_CHECK_VALUE(row.dim() > 0, run.name(), " is a scalar in element ", i,
                      " of the batch, but must have a dim 0 that varies; map it to one number of dims.");
    items += row.size(0);
  }
  run.require_same(
      "dtype", [](const at::Tensor& row) { return row.scalar_type(); }, dtype_text, "map it to one dtype");
  run.require_same(
      "shape beyond dim 0", [](const at::Tensor& row) { return row.sizes().slice(1); }, dims_text,
      "only dim 0 may vary, so map the others to one size or use padded_batch");
  RaggedRows ragged(static_cast<std::int64_t>(run.size()), items, run[0], pool);
  for (std::size_t i = 0; i < run.size(); ++i) ragged.append_row(run[i]);
  return ragged.finish();
}

Ragged slice(const Ragged& leaf, std::int64_t begin, std::int64_t end) {
  return {leaf.values, share_rows(leaf.offsets, begin, end + 1)};
}

at::Tensor row_of(const Ragged& leaf, std::int64_t row) {
  return share_rows(leaf.values, bounds_of(leaf)[row], bounds_of(leaf)[row + 1]);
}

Ragged copy(const Ragged& leaf, BufferPool& pool) {
  RaggedRows fresh(rows_of(leaf), used_values(leaf).size(0), leaf.values, pool);
  fresh.append(leaf);
  return fresh.finish();
}

}  // namespace torch_distinput
