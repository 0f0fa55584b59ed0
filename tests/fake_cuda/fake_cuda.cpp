// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "fake_cuda.h"

#include <array>
#include <atomic>

#include "device/cuda/cuda_abi.h"
#include "device/cuda/driver.h"

namespace torch_distinput {
namespace {

constexpr int kNotSupported = 801;

std::array<std::atomic<int>, 2> device_errors{};

int check_device(std::int32_t device) { return device_errors.at(static_cast<std::size_t>(device)); }

const char* error_text(int error) {
  if (error == fake_cuda::kInsufficientDriver) return "CUDA driver version is insufficient";
  return error == fake_cuda::kNoKernelImage ? "no kernel image is available" : "not supported";
}

constexpr CudaFunctions kFunctions{
    check_device,
    exchange_capture_mode,
    new_stream,
    pci_address,
    capture_status,
    [](const UnpackImages*, void*) { return kNotSupported; },
    [](const std::int32_t*, std::int32_t) { return kNotSupported; },
    [](const DevicePart*, std::int32_t, NumberType) { return kNotSupported; },
    [](const DevicePart*, std::int32_t, NumberType, std::int32_t) { return kNotSupported; },
    [](const DevicePart*, std::int32_t, std::int32_t) { return kNotSupported; },
    error_text,
    [](const char*) {},
    [] {},
};

}  // namespace

void fake_cuda::set_device_error(int device, int error) {
  device_errors.at(static_cast<std::size_t>(device)) = error;
}

}  // namespace torch_distinput

extern "C" const torch_distinput::CudaFunctions* tdi_cuda_functions() { return &torch_distinput::kFunctions; }
