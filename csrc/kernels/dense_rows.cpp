// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/dense.h"
#include "kernels/leaf_rows.h"
#include "kernels/rows.h"

namespace torch_distinput {

at::Tensor join(const LeafRun<at::Tensor>& run, BufferPool& pool) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const at::Tensor& part = dense_leaf(run.elements[i], run.leaf, run.op, run.stacking ? "stack" : "join");
    rows += run.stacking ? 1 : part.size(0);
  }
  const auto dims = [&](const at::Tensor& part) { return row_dims(part.sizes(), run.stacking); };
  run.require_same(
      "dtype", [](const at::Tensor& part) { return part.scalar_type(); }, dtype_text, "map it to one dtype");
  run.require_same(
      run.stacking ? "shape" : "shape beyond dim 0", dims, dims_text,
      run.stacking ? "use padded_batch or ragged_batch, or map it to one shape" : "map it to one shape");
  Dims shape{rows};
  shape.insert(shape.end(), dims(run[0]).begin(), dims(run[0]).end());
  at::Tensor joined = pooled_tensor(shape, run[0].scalar_type(), pool);
  char* to = static_cast<char*>(joined.mutable_data_ptr());
  for (std::size_t i = 0; i < run.size(); ++i) {
    copy_items(run[i], to);
    to += run[i].nbytes();
  }
  return joined;
}

at::Tensor slice(const at::Tensor& leaf, std::int64_t begin, std::int64_t end) {
  return share_rows(leaf, begin, end);
}

at::Tensor row_of(const at::Tensor& leaf, std::int64_t row) { return share_row(leaf, row); }

at::Tensor copy(const at::Tensor& leaf, BufferPool& pool) {
  if (!leaf.device().is_cpu() || leaf.layout() != at::kStrided) return leaf;
  at::Tensor fresh = pooled_tensor({leaf.sizes().data(), leaf.sizes().size()}, leaf.scalar_type(), pool);
  copy_items(leaf, static_cast<char*>(fresh.mutable_data_ptr()));
  return fresh;
}

}  // namespace torch_distinput
