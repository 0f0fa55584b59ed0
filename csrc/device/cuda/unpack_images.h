// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/cuda_abi.h"

namespace torch_distinput {

/// As `CudaFunctions::unpack_images`. The same bits as the CPU's `unpack_images`.
int unpack_images(const UnpackImages* work, void* stream);

}  // namespace torch_distinput
