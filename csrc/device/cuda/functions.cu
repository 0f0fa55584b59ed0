// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include "device/cuda/collectives.h"
#include "device/cuda/driver.h"
#include "device/cuda/unpack_images.h"

namespace torch_distinput {
namespace {

/// The architectures that this file was compiled for, in ascending order: 100 * major + 10 * minor.
constexpr int kCapabilities[] = {__CUDA_ARCH_LIST__};
constexpr int kMinCapability = kCapabilities[0] / 10;

int check_device(std::int32_t device) {
  int major = 0;
  int minor = 0;
  cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (error == cudaSuccess && 10 * major + minor < kMinCapability) error = cudaErrorNoKernelImageForDevice;
  static_cast<void>(cudaGetLastError());  // clears the error, which the next kernel would report otherwise
  return static_cast<int>(error);
}

const char* error_text(int error) {
  if (is_collective_error(error)) return collective_error_text(error);
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

void range_push(const char* name) { nvtxRangePushA(name); }
void range_pop() { nvtxRangePop(); }

constexpr CudaFunctions kFunctions{check_device,   exchange_capture_mode, new_stream, pci_address,
                                   capture_status, unpack_images,         nccl_init,  nccl_all_reduce,
                                   nccl_reduce,    nccl_gather,           error_text, range_push,
                                   range_pop};

}  // namespace
}  // namespace torch_distinput

extern "C" __attribute__((visibility("default"))) const torch_distinput::CudaFunctions* tdi_cuda_functions() {
  return &torch_distinput::kFunctions;
}
