// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "device/cuda/cuda_abi.h"

namespace torch_distinput {

/// The optional library that holds all CUDA code.
struct CudaLibrary {
  const CudaFunctions* functions = nullptr;  ///< null: it is not there
  bool built = false;                        ///< there is a file
  std::string missing_because;               ///< why it is not there; empty: it is
};

/// Loads the library from the file `path`. Asks no driver.
CudaLibrary load_cuda_library(const std::string& path);

/// The library beside this one, loaded once. Asks no driver, so that a process that only describes what it
/// wants may still fork children that use CUDA.
const CudaLibrary& cuda_library();

/// Why `device`, one of CUDA's, gets nothing from `cuda_library()`; empty where it does. Loads the driver,
/// but sets up no device.
std::string cuda_library_obstacle(c10::Device device);

}  // namespace torch_distinput
