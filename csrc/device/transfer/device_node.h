// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// The NUMA node that `device` is connected to; none where it is not known, or the machine has one node.
/// Loads the driver on machines with several. `sysfs`: where the kernel tells. Safe from any thread.
TDI_API std::optional<int> node_of_device(c10::Device device, const std::string& sysfs = "/sys");

/// Has pages of mapped memory that nobody has touched yet come from the node of the current accelerator,
/// where that is known. `data` is the start of a page.
TDI_API void place_near_device(void* data, std::size_t bytes);

/// Keeps the threads that build batches at the node of `device`; where devices of several nodes are used, on
/// all CPUs. Safe from any thread.
void build_batches_near(c10::Device device);

}  // namespace torch_distinput
