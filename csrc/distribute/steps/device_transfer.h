// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/transfer/device_stager.h"
#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// Copies the parts of the local replicas to their devices, with a stager for each replica that is not on the
/// host. Belongs to one iterator.
class DeviceTransfer {
 public:
  explicit DeviceTransfer(std::vector<std::shared_ptr<DeviceStager>> stagers)
      : stagers_(std::move(stagers)) {}

  /// A transfer for the parts of replica `replica` alone, with the same stager.
  std::shared_ptr<DeviceTransfer> only(std::size_t replica) const;

  /// Begins to copy `parts`, one for each local replica, as far as the stagers' budgets allow, and sets
  /// `staged`. Does not throw: `deliver` begins the other copies and throws their errors. Safe from any
  /// thread.
  void begin(const std::vector<Element>& parts, std::vector<StagedPtr>& staged) noexcept;
  /// The `parts` on their devices, for the calling thread's current streams. `staged`: as `begin` set it, or
  /// empty; afterwards, also after an exception, it holds the copies that have begun. Throws what
  /// `DeviceStager` throws, and an interrupt. One thread at a time.
  std::vector<Element> deliver(const std::vector<Element>& parts, std::vector<StagedPtr>& staged);

 private:
  std::vector<std::shared_ptr<DeviceStager>> stagers_;  // null for a replica on the host
};
using DeviceTransferPtr = std::shared_ptr<DeviceTransfer>;

/// A transfer for `distribution`; null if no part leaves the host. Sets up the devices. Throws as
/// `open_device_context` does.
DeviceTransferPtr open_device_transfer(const Distribution& distribution);

}  // namespace torch_distinput
