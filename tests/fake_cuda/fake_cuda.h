// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// A libtorch_distinput_cuda.so that needs neither nvcc nor a GPU: it calls the driver as the real one does,
/// but its kernels return an error.
namespace torch_distinput::fake_cuda {

/// cudaError_t values that it returns.
inline constexpr int kInsufficientDriver = 35;
inline constexpr int kNoKernelImage = 209;

/// Makes `check_device` return `error` for `device` (0 or 1); at first it returns 0.
void set_device_error(int device, int error);

}  // namespace torch_distinput::fake_cuda
