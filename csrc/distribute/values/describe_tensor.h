// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "torch_distinput/spec.h"

namespace torch_distinput {

/// The dtype and shape of `tensor`, as `float32[2, 3]`, for messages.
inline std::string describe_tensor(const at::Tensor& tensor) {
  std::string text = dtype_name(tensor.scalar_type()) + "[";
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    text += (dim == 0 ? "" : ", ") + std::to_string(tensor.size(dim));
  }
  return text + "]";
}

}  // namespace torch_distinput
