// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <c10/core/Device.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// How many devices of the accelerator that torch was built for this process sees; 0 if torch has none. Calls
/// torch, and so the driver, unless `count_devices_with` set another way; children that are forked after a
/// call of the driver cannot use CUDA. Safe from any thread.
TDI_API c10::DeviceIndex device_count();

/// Makes `device_count` call `count` for an accelerator of `type`: Python can count devices without the
/// driver, through NVML. Empty: torch counts again. Safe from any thread.
TDI_API void count_devices_with(c10::DeviceType type, std::function<int()> count);

}  // namespace torch_distinput
