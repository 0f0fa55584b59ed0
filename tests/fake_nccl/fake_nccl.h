// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// A libnccl.so.2 for machines without GPUs: the functions that the CUDA library uses, over memory of the
/// host. What real devices would wait for in vain is an error at the end of the group; what a stream is, is
/// not looked at.
namespace torch_distinput::fake_nccl {

/// ncclResult_t that it gives.
inline constexpr int kInvalidArgument = 4;
inline constexpr int kInvalidUsage = 5;

/// KeyValueStores made so far.
std::int64_t comms_made();
/// Times that devices were to meet so far.
std::int64_t rendezvous_of_all();

}  // namespace torch_distinput::fake_nccl
