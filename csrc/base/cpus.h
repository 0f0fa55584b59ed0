// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

// The functions below are safe from any thread.

/// How many CPUs' time the control groups of this process allow, as a container's limit is kept: of its own
/// group and those above it that can be seen, the least. Of version 2 (`cpu.max`) or 1 (`cpu.cfs_quota_us`).
/// None without a limit. `process`: the folder that the kernel has for the process.
TDI_API std::optional<double> cpu_quota(const std::string& process = "/proc/self");

/// CPUs that this process can use, at least 1: those of its affinity mask, but no more than its quota,
/// rounded up. The quota is that of the first call.
TDI_API int available_cpus();

}  // namespace torch_distinput
