// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/cuda_abi.h"

namespace torch_distinput {

/// The optional library that holds all CUDA code, looked for once beside this one; null where it was not
/// built, cannot be loaded or finds no device.
const CudaFunctions* cuda_library();

}  // namespace torch_distinput
