// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

/// \file
/// Collectives of several devices of this process. They are queued on the calling thread's current streams of
/// those devices and do not wait. CUDA devices use NCCL, through the CUDA library; devices of another
/// accelerator need kernels that its backend registered for the operators `torch_distinput::all_reduce`,
/// `reduce` and `gather`. Only users' threads call these functions: the library's threads start no
/// collective.

namespace torch_distinput {

/// Whether the functions below work for `values`: at least two dense tensors on different devices of one
/// type, which has the kernels, and autograd does not record them. To reduce them, their dtype must be one
/// that NCCL can add. The first call for a set of devices may take seconds, in which NCCL connects them.
bool can_gather_on_devices(const std::vector<at::Tensor>& values);
bool can_reduce_on_devices(const std::vector<at::Tensor>& values);

/// The sum of `values`, once on each of their devices, in their order. REQUIRES: `can_reduce_on_devices`,
/// equal shapes and dtypes. Throws c10::Error if NCCL fails, as do the functions below.
std::vector<at::Tensor> all_reduce_on_devices(const std::vector<at::Tensor>& values);
/// The sum on the device of `values[root]` alone. REQUIRES: as `all_reduce_on_devices`.
at::Tensor reduce_on_devices(const std::vector<at::Tensor>& values, std::size_t root);
/// Copies of all `values` on the device of `values[root]`, in their order; shapes and dtypes may differ.
/// REQUIRES: `can_gather_on_devices`.
std::vector<at::Tensor> gather_on_devices(const std::vector<at::Tensor>& values, std::size_t root);

}  // namespace torch_distinput
