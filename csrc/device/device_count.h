// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// How many devices this process sees of the accelerator that torch was built for; 0 without one. Asks torch,
/// and so the driver: children that are forked afterwards cannot use CUDA.
TDI_API c10::DeviceIndex device_count();

/// Makes `device_count` call `count` where the accelerator is of `type`, as Python knows a way that leaves
/// the driver alone. Empty: asks torch again. Any thread.
TDI_API void count_devices_with(c10::DeviceType type, std::function<int()> count);

}  // namespace torch_distinput
