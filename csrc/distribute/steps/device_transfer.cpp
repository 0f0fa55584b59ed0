// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/device_transfer.h"

#include <exception>
#include <optional>
#include <utility>

#include "base/stage.h"
#include "distribute/steps/device_placement.h"
#include "execution/read_ahead.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
DeviceTransferPtr open_device_transfer(const Distribution& distribution) {
  if (!leaves_host(distribution)) return nullptr;
  const auto left = left_to_devices(distribution);
  std::vector<std::shared_ptr<DeviceStager>> stagers;
  for (const c10::Device device : distribution.devices) {
    std::optional<ImageNormalization> unpacking;
    if (!left.empty()) unpacking = left[left.size() == 1 ? 0 : stagers.size()]->normalization;
    stagers.push_back(device.is_cpu() ? nullptr
                                      : std::make_shared<DeviceStager>(open_device_context(device),
                                                                       prefetch_bytes(distribution.options),
                                                                       std::move(unpacking)));
  }
  return std::make_shared<DeviceTransfer>(std::move(stagers));
}

DeviceTransferPtr DeviceTransfer::only(std::size_t replica) const {
  return std::make_shared<DeviceTransfer>(std::vector{stagers_[replica]});
}

void DeviceTransfer::begin(const std::vector<Element>& parts, std::vector<StagedPtr>& staged) noexcept {
  const StageScope copies(Stage::kCopy);
  try {
    staged.resize(stagers_.size());
    for (std::size_t replica = 0; replica < stagers_.size(); ++replica) {
      if (stagers_[replica]) staged[replica] = stagers_[replica]->try_stage(parts[replica]);
    }
  } catch (const std::exception&) {
    // `deliver` tries again, in the consumer's thread, which gets the error.
  }
}

std::vector<Element> DeviceTransfer::deliver(const std::vector<Element>& parts,
                                             std::vector<StagedPtr>& staged) {
  const StageScope copies(Stage::kCopy);
  staged.resize(stagers_.size());
  for (std::size_t replica = 0; replica < stagers_.size(); ++replica) {
    if (stagers_[replica] && !staged[replica])
      staged[replica] = stagers_[replica]->stage(parts[replica], interrupt_check());
  }
  std::vector<Element> delivered;
  for (std::size_t replica = 0; replica < stagers_.size(); ++replica) {
    if (!stagers_[replica]) {
      delivered.push_back(parts[replica]);
      continue;
    }
    note_copies(1, parts[replica].bytes());
    delivered.push_back(stagers_[replica]->deliver(staged[replica]));
  }
  return delivered;
}

}  // namespace torch_distinput
