// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>

namespace torch_distinput {

/// A contiguous tensor on `storage`, `offset` bytes in, which must be a multiple of the size of an item. It
/// has a version counter of its own, and is an ordinary tensor also where the calling thread is in inference
/// mode.
at::Tensor tensor_on(const c10::Storage& storage, std::size_t offset, c10::IntArrayRef sizes,
                     c10::ScalarType dtype);

}  // namespace torch_distinput
