// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace torch_distinput {

/// A contiguous tensor on `storage`, on its device, from byte `offset`, which must be a multiple of the
/// dtype's size. It shares the storage, has a version counter of its own, and is an ordinary tensor even
/// where the calling thread is in inference mode. REQUIRES: the items fit in the storage.
at::Tensor tensor_on(const c10::Storage& storage, std::size_t offset, c10::IntArrayRef sizes,
                     c10::ScalarType dtype);

}  // namespace torch_distinput
