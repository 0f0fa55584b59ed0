// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/tensor_on.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/TensorOptions.h>

namespace torch_distinput {

at::Tensor tensor_on(const c10::Storage& storage, std::size_t offset, c10::IntArrayRef sizes,
                     c10::ScalarType dtype) {
  const c10::InferenceMode ordinary(false);
  const auto type = c10::scalarTypeToTypeMeta(dtype);
  const c10::DispatchKey key = c10::computeDispatchKey(dtype, c10::kStrided, storage.device());
  auto tensor =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), type);
  tensor.unsafeGetTensorImpl()->set_storage_offset(static_cast<std::int64_t>(offset / type.itemsize()));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

}  // namespace torch_distinput
