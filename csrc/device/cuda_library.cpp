// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/cuda_library.h"

#include <dlfcn.h>

#include <string>

namespace torch_distinput {
namespace {

std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&cuda_library), &info) == 0) return "";
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

const CudaFunctions* load() {
  void* const library =
      ::dlopen((own_folder() + "libtorch_distinput_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  using Functions = const CudaFunctions* (*)();
  const auto functions = reinterpret_cast<Functions>(::dlsym(library, "tdi_cuda_functions"));
  if (functions == nullptr) return nullptr;
  int count = 0;
  return functions()->device_count(&count) == 0 && count > 0 ? functions() : nullptr;
}

}  // namespace

const CudaFunctions* cuda_library() {
  static const CudaFunctions* const functions = load();
  return functions;
}

}  // namespace torch_distinput
