// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/steps/built_step.h"
#include "distribute/steps/device_transfer.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// What the user gets of `step`: each part on its replica's device; `transfer` is null where all stay on the
/// host. Takes the data out of `step`; when a copy to a device throws, `step` is as before.
PerReplica deliver(const DeviceTransferPtr& transfer, BuiltStep& step, std::int64_t epoch, bool is_last);

}  // namespace torch_distinput
