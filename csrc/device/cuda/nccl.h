// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace torch_distinput {

using NcclComm = void*;  ///< ncclComm_t

/// The functions of NCCL 2 that are used here, with types of the same size as in nccl.h: enums are ints. The
/// NCCL that torch brings is loaded at run time. Functions that return an int return an ncclResult_t.
struct Nccl {
  int (*comm_init_all)(NcclComm* comms, int count, const int* devices);
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, NcclComm comm,
                    void* stream);
  int (*reduce)(const void* from, void* to, std::size_t count, int type, int op, int root, NcclComm comm,
                void* stream);
  int (*send)(const void* from, std::size_t count, int type, int peer, NcclComm comm, void* stream);
  int (*recv)(void* to, std::size_t count, int type, int peer, NcclComm comm, void* stream);
  int (*group_start)();
  int (*group_end)();
  const char* (*error_string)(int result);
};

inline constexpr int kNcclSum = 0;    ///< ncclSum
inline constexpr int kNcclUint8 = 1;  ///< ncclUint8

/// NCCL's functions, loaded at the first call and never unloaded; null if libnccl.so.2 is not found. Safe
/// from any thread.
const Nccl* nccl();

}  // namespace torch_distinput
