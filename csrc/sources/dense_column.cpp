// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/dense_column.h"

namespace torch_distinput::sources {
namespace {

/// Returns whether each row is contiguous; the rows may lie at any distance from each other.
bool has_contiguous_rows(const at::Tensor& tensor) {
  std::int64_t expected = 1;
  for (std::int64_t dim = tensor.dim() - 1; dim > 0; --dim) {
    if (tensor.size(dim) != 1 && tensor.stride(dim) != expected) return false;
    expected *= tensor.size(dim);
  }
  return true;
}

}  // namespace

DenseColumn dense_column(at::Tensor tensor) {
  tensor = tensor.detach().resolve_conj().resolve_neg();
  if (!has_contiguous_rows(tensor)) tensor = tensor.contiguous();
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  std::int64_t row_bytes = item;
  for (const std::int64_t dim : tensor.sizes().slice(1)) row_bytes *= dim;
  return {tensor, tensor.stride(0) * item, row_bytes};
}

}  // namespace torch_distinput::sources
