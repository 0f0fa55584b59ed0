// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/cuda/cuda_abi.h"

namespace torch_distinput {

/// The members of `CudaFunctions` of the same names. One call at a time queues its work, so that all devices
/// see the collectives in one order.
int nccl_init(const std::int32_t* devices, std::int32_t count);
int nccl_all_reduce(const DevicePart* parts, std::int32_t count, NumberType type);
int nccl_reduce(const DevicePart* parts, std::int32_t count, NumberType type, std::int32_t root);
int nccl_gather(const DevicePart* parts, std::int32_t count, std::int32_t root);

/// The text of an error that one of them returned.
const char* collective_error_text(int error);

/// Whether `error` is one of these functions', and not a cudaError_t.
constexpr bool is_collective_error(int error) { return error < 0; }

}  // namespace torch_distinput
