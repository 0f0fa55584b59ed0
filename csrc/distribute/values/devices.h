// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace torch_distinput {

/// The devices that `names` name (`cpu`, `cuda:1`; `cuda` is the current one), none twice except `cpu`.
/// Throws c10::ValueError, which names `strategy` and the device, for a name that is not a device, a device
/// that does not exist, and one that is named twice.
std::vector<c10::Device> find_devices(const std::vector<std::string>& names, const std::string& strategy);

/// The accelerator whose index is the local rank (`Launch::local_rank_in`); the current one if no launcher
/// says it; `cpu` without accelerators. A process that sees one accelerator gets it whatever its
/// rank: launchers such as Slurm may make one accelerator visible to each process, where its index is 0.
/// Throws c10::ValueError, which names `strategy`, if there is no accelerator of that index.
std::vector<c10::Device> local_device(const std::string& strategy);

/// All accelerators that torch sees; one `cpu` if there are none.
std::vector<c10::Device> all_devices();

}  // namespace torch_distinput
