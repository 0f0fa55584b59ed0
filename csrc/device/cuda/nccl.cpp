// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/cuda/nccl.h"

#include <optional>

#include <dlfcn.h>

namespace torch_distinput {
namespace {

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

std::optional<Nccl> load() {
  // A CUDA build of torch has already loaded it from a folder of its own, so the name is enough.
  void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Nccl found{};
  const bool complete =
      find(library, "ncclCommInitAll", found.comm_init_all) &&
      find(library, "ncclAllReduce", found.all_reduce) && find(library, "ncclReduce", found.reduce) &&
      find(library, "ncclSend", found.send) && find(library, "ncclRecv", found.recv) &&
      find(library, "ncclGroupStart", found.group_start) && find(library, "ncclGroupEnd", found.group_end) &&
      find(library, "ncclGetErrorString", found.error_string);
  return complete ? std::optional(found) : std::nullopt;
}

}  // namespace

const Nccl* nccl() {
  static const std::optional<Nccl> loaded = load();
  return loaded ? &*loaded : nullptr;
}

}  // namespace torch_distinput
