// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/cuda_library.h"

#include <dlfcn.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&cuda_library), &info) == 0) return "";
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

}  // namespace

CudaLibrary load_cuda_library(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0)
    return {nullptr, false, "the CUDA library was not built, because there was no nvcc"};
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return {nullptr, true, "the CUDA library cannot be loaded: " + std::string(::dlerror())};
  using Functions = const CudaFunctions* (*)();
  const auto functions = reinterpret_cast<Functions>(::dlsym(library, "tdi_cuda_functions"));
  if (functions == nullptr) return {nullptr, true, path + " is not a CUDA library of torch_distinput"};
  return {functions(), true, ""};
}

const CudaLibrary& cuda_library() {
  static const auto& library =
      *new CudaLibrary(load_cuda_library(own_folder() + "libtorch_distinput_cuda.so"));
  return library;
}

std::string cuda_library_obstacle(c10::Device device) {
  const CudaLibrary& cuda = cuda_library();
  if (cuda.functions == nullptr) return cuda.missing_because;
  const int error = cuda.functions->check_device(device.index());
  return error == 0
             ? ""
             : "the CUDA library cannot use " + device.str() + ": " + cuda.functions->error_text(error);
}

}  // namespace torch_distinput
