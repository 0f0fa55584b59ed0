// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace torch_distinput {

/// The devices that `names` name (`cpu`, `cuda:1`; `cuda` is the current one), none twice except `cpu`.
/// Throws c10::ValueError naming `strategy` and the device for one that is no device, does not exist or is
/// named twice.
std::vector<c10::Device> find_devices(const std::vector<std::string>& names, const std::string& strategy);

/// The accelerator whose number is the environment's `LOCAL_RANK` (torchrun sets it), else the current one,
/// else `cpu`. Where this process sees one alone, that one, whatever its rank: launchers (Slurm, for one) may
/// show each process its own, which then has the number 0 in all of them. Throws c10::ValueError naming
/// `strategy` where there are fewer accelerators than that.
std::vector<c10::Device> local_device(const std::string& strategy);

/// Every accelerator that torch sees, else one `cpu`.
std::vector<c10::Device> all_devices();

}  // namespace torch_distinput
