// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// A libtorch_distinput_cuda.so that needs neither nvcc nor GPUs: its way to the driver is the real one, its
/// kernels run nowhere.
namespace torch_distinput::fake_cuda {

/// cudaError_t that it gives.
inline constexpr int kInsufficientDriver = 35;
inline constexpr int kNoKernelImage = 209;

/// What `check_device` answers for `device` (below 2); at first it is 0.
void set_device_error(int device, int error);

}  // namespace torch_distinput::fake_cuda
