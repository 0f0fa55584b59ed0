// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/transfer/device_stager.h"
#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// How the parts of the local replicas get to their devices: a stager for each replica that is not on the
/// host. Belongs to one iterator.
class DeviceTransfer {
 public:
  explicit DeviceTransfer(std::vector<std::shared_ptr<DeviceStager>> stagers)
      : stagers_(std::move(stagers)) {}

  /// The same for the parts of replica `replica` alone.
  std::shared_ptr<DeviceTransfer> only(std::size_t replica) const;

  /// Begins to copy `parts`, one for each local replica, as far as there is room on the way, and fills
  /// `staged`. Throws nothing: what could not begin here is tried again, and fails, in `deliver`. Any thread.
  void begin(const std::vector<Element>& parts, std::vector<StagedPtr>& staged) noexcept;
  /// `parts` for the calling thread's current streams; `parts` stay as they were, and `staged`, which `begin`
  /// filled or nobody, holds what is on its way. Throws what the devices throw, and an interrupt. One thread
  /// at a time.
  std::vector<Element> deliver(const std::vector<Element>& parts, std::vector<StagedPtr>& staged);

 private:
  std::vector<std::shared_ptr<DeviceStager>> stagers_;  // null for a replica on the host
};
using DeviceTransferPtr = std::shared_ptr<DeviceTransfer>;

/// Null where nothing leaves the host. Sets up the devices.
DeviceTransferPtr open_device_transfer(const Distribution& distribution);

}  // namespace torch_distinput
