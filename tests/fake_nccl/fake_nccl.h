// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// A libnccl.so.2 for machines without a GPU: the functions that the CUDA library uses, over host memory.
/// Calls for which real devices would wait forever are an error at the end of the group; streams are ignored.
namespace torch_distinput::fake_nccl {

/// ncclResult_t values that it returns.
inline constexpr int kInvalidArgument = 4;
inline constexpr int kInvalidUsage = 5;

/// Communicators made so far.
std::int64_t comms_made();
/// Calls of ncclCommInitAll so far.
std::int64_t rendezvous_of_all();

}  // namespace torch_distinput::fake_nccl
