// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "device/cuda/collectives.h"
#include "device/cuda/unpack_images.h"

namespace torch_distinput {
namespace {

int device_count(int* count) { return static_cast<int>(cudaGetDeviceCount(count)); }

int exchange_capture_mode(int* mode) {
  auto exchanged = static_cast<cudaStreamCaptureMode>(*mode);
  const cudaError_t error = cudaThreadExchangeStreamCaptureMode(&exchanged);
  *mode = static_cast<int>(exchanged);
  return static_cast<int>(error);
}

const char* error_text(int error) {
  if (is_collective_error(error)) return collective_error_text(error);
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

constexpr CudaFunctions kFunctions{device_count,    exchange_capture_mode, unpack_images, nccl_init,
                                   nccl_all_reduce, nccl_reduce,           nccl_gather,   error_text};

}  // namespace
}  // namespace torch_distinput

extern "C" __attribute__((visibility("default"))) const torch_distinput::CudaFunctions* tdi_cuda_functions() {
  return &torch_distinput::kFunctions;
}
