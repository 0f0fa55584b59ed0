// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace torch_distinput::sources {

/// One dense leaf in the user's memory, which may move: rows of `row_bytes` contiguous bytes begin every
/// `stride` bytes.
struct DenseColumn {
  at::Tensor tensor;  ///< the library's own, so that sizes stay as they are when the user's is resized
  std::int64_t stride;
  std::int64_t row_bytes;
};

/// The rows of `tensor` along dim 0; REQUIRES: it is strided, and in host memory. They are copied where a row
/// is not contiguous.
DenseColumn dense_column(at::Tensor tensor);

}  // namespace torch_distinput::sources
