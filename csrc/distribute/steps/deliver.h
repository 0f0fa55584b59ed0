// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/steps/built_step.h"
#include "distribute/steps/device_transfer.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// The values of `step` for the user: each part on its replica's device. `transfer`: null if all parts stay
/// on the host. Moves the data out of `step`; if a copy to a device throws, `step` is unchanged.
PerReplica deliver(const DeviceTransferPtr& transfer, BuiltStep& step, std::int64_t epoch, bool is_last);

}  // namespace torch_distinput
