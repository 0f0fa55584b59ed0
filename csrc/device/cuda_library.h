// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "device/cuda/cuda_abi.h"

namespace torch_distinput {

/// The optional library that holds all CUDA code, or the reason why there is none.
struct CudaLibrary {
  const CudaFunctions* functions = nullptr;  ///< valid until the process ends; null: not loaded
  bool built = false;                        ///< whether the file exists
  std::string missing_because;               ///< why it is not loaded; empty: it is
};

/// Loads the library from the file `path`. Does not throw and does not load the driver.
CudaLibrary load_cuda_library(const std::string& path);

/// The library in the folder of this one, loaded at the first call and never unloaded. Does not load the
/// driver, so that a process that only describes its data may still fork children that use CUDA. Safe from
/// any thread, as is `cuda_library_obstacle`.
const CudaLibrary& cuda_library();

/// Why `cuda_library()` cannot work on `device`, which must be a CUDA device; empty if it can. Loads the
/// driver, but sets up no device.
std::string cuda_library_obstacle(c10::Device device);

}  // namespace torch_distinput
