// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/cuda/driver.h"

#include <optional>

#include <dlfcn.h>

namespace torch_distinput {
namespace {

constexpr int kNoDriver = 35;  // cudaErrorInsufficientDriver
constexpr unsigned kNonBlocking = 1;

/// The driver's functions used here, with types of the same size as in cuda.h: enums and devices are ints.
struct Driver {
  int (*exchange_capture_mode)(int* mode);
  int (*init)(unsigned flags);
  int (*device_get)(int* device, int ordinal);
  int (*device_get_pci_bus_id)(char* text, int size, int device);
  int (*primary_context_retain)(void** context, int device);
  int (*context_push)(void* context);
  int (*context_pop)(void** context);
  int (*stream_create)(void** stream, unsigned flags);
  int (*stream_is_capturing)(void* stream, int* status);
};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

std::optional<Driver> load() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Driver found{};
  const bool complete = find(library, "cuThreadExchangeStreamCaptureMode", found.exchange_capture_mode) &&
                        find(library, "cuInit", found.init) &&
                        find(library, "cuDeviceGet", found.device_get) &&
                        find(library, "cuDeviceGetPCIBusId", found.device_get_pci_bus_id) &&
                        find(library, "cuDevicePrimaryCtxRetain", found.primary_context_retain) &&
                        find(library, "cuCtxPushCurrent_v2", found.context_push) &&
                        find(library, "cuCtxPopCurrent_v2", found.context_pop) &&
                        find(library, "cuStreamCreate", found.stream_create) &&
                        find(library, "cuStreamIsCapturing", found.stream_is_capturing);
  return complete ? std::optional(found) : std::nullopt;
}

const Driver* driver() {
  static const std::optional<Driver> loaded = load();
  return loaded ? &*loaded : nullptr;
}

}  // namespace

int exchange_capture_mode(int* mode) {
  return driver() == nullptr ? kNoDriver : driver()->exchange_capture_mode(mode);
}

int new_stream(std::int32_t device, void** stream) {
  const Driver* const cuda = driver();
  if (cuda == nullptr) return kNoDriver;
  int handle = 0;
  void* context = nullptr;
  // Never released, as in torch: the stream lives as long as the process.
  if (const int error = cuda->device_get(&handle, device); error != 0) return error;
  if (const int error = cuda->primary_context_retain(&context, handle); error != 0) return error;
  if (const int error = cuda->context_push(context); error != 0) return error;
  const int error = cuda->stream_create(stream, kNonBlocking);
  cuda->context_pop(&context);
  return error;
}

int pci_address(std::int32_t device, char* text, std::int32_t size) {
  const Driver* const cuda = driver();
  if (cuda == nullptr) return kNoDriver;
  int handle = 0;
  if (const int error = cuda->init(0); error != 0) return error;
  if (const int error = cuda->device_get(&handle, device); error != 0) return error;
  return cuda->device_get_pci_bus_id(text, size, handle);
}

int capture_status(void* stream, int* status) {
  *status = 0;
  // The default stream never records; to ask for it, the thread would need a context.
  if (stream == nullptr) return 0;
  return driver() == nullptr ? kNoDriver : driver()->stream_is_capturing(stream, status);
}

}  // namespace torch_distinput
