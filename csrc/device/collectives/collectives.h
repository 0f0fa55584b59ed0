// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

/// \file
/// What several devices of this process do together, on the calling thread's current streams of those devices
/// and without a wait: CUDA's by NCCL, in the CUDA library; another accelerator's where its backend has
/// registered kernels for the operators `torch_distinput::all_reduce`, `reduce` and `gather`. For the user's
/// threads: the library's own never start a collective.

namespace torch_distinput {

/// Whether the devices of `values` can do the below with them: at least two dense tensors, each on another
/// device of one type, which has the means, and no gradient is to flow. To be added up they must be of a
/// dtype that the devices can add. The first time for some devices may take seconds.
bool can_gather_on_devices(const std::vector<at::Tensor>& values);
bool can_reduce_on_devices(const std::vector<at::Tensor>& values);

/// The sum of the values on each of their devices. REQUIRES: `can_reduce_on_devices`, and equal shapes and
/// dtypes.
std::vector<at::Tensor> all_reduce_on_devices(const std::vector<at::Tensor>& values);
/// The same on the device of `values[root]` alone.
at::Tensor reduce_on_devices(const std::vector<at::Tensor>& values, std::size_t root);
/// The values on the device of `values[root]`. REQUIRES: `can_gather_on_devices`.
std::vector<at::Tensor> gather_on_devices(const std::vector<at::Tensor>& values, std::size_t root);

}  // namespace torch_distinput
