// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "state.h"

namespace torch_distinput::fake {

/// The address at which a stream finds the memory of `tensor`.
inline void* seen(const at::Tensor& tensor) {
  auto* const data = const_cast<void*>(tensor.const_data_ptr());
  return tensor.device().is_cpu() ? data : memory_of(data);
}

/// The memory and layout of a tensor, from which a stream makes a host tensor when it executes its work.
class HostView {
 public:
  explicit HostView(const at::Tensor& tensor)
      : data_(seen(tensor)),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        dtype_(tensor.scalar_type()) {}

  at::Tensor tensor() const { return at::from_blob(data_, sizes_, strides_, at::TensorOptions(dtype_)); }

 private:
  void* data_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> strides_;
  c10::ScalarType dtype_;
};

}  // namespace torch_distinput::fake
