// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/cuda_abi.h"

namespace torch_distinput {

/// `CudaFunctions::unpack_images`. The result has the same bits as that of `unpack_images` on the CPU.
int unpack_images(const UnpackImages* work, void* stream);

}  // namespace torch_distinput
