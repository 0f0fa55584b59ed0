// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/shipping.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "distribute/built_step.h"
#include "distribute/read_ahead.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

const c10::Device* first_accelerator(const Distribution& distribution) {
  const bool placed = distribution.input.place_dataset_on_device && !distribution.pipelines.empty();
  if (!distribution.input.fetch_to_device && !placed) return nullptr;
  const auto& devices = distribution.devices;
  const auto found =
      std::find_if(devices.begin(), devices.end(), [](c10::Device device) { return !device.is_cpu(); });
  return found == devices.end() ? nullptr : &*found;
}

/// Why not all `devices` unpack images of so many channels; empty: they do.
std::string obstacle_of(const std::vector<c10::Device>& devices, std::int64_t channels) {
  for (const c10::Device device : devices) {
    if (std::string obstacle = unpacking_obstacle(device, channels); !obstacle.empty()) return obstacle;
  }
  return "";
}

/// The last op of each pipeline.
std::vector<NodePtr> roots(const Distribution& distribution) {
  if (distribution.pipelines.empty()) return {distribution.dealing.node};
  std::vector<NodePtr> nodes;
  for (const DistributionPtr& pipeline : distribution.pipelines) nodes.push_back(pipeline->dealing.node);
  return nodes;
}

}  // namespace

bool leaves_host(const Distribution& distribution) { return first_accelerator(distribution) != nullptr; }

Unpacking unpacking_on_devices(const Distribution& distribution) {
  if (!leaves_host(distribution)) return {};
  Unpacking unpacking;
  for (const NodePtr& root : roots(distribution)) {
    auto last = ops::last_normalization(*root);
    if (!last) return {};
    std::string obstacle = obstacle_of(distribution.devices, last->normalization.scaling.channels());
    if (!obstacle.empty()) return {{}, std::move(obstacle)};
    unpacking.left.push_back(*std::move(last));
  }
  return unpacking;
}

std::vector<ops::LastNormalization> left_to_devices(const Distribution& distribution) {
  return unpacking_on_devices(distribution).left;
}

SpecPtr host_spec(const Distribution& distribution) {
  const auto left = left_to_devices(distribution);
  return left.size() == 1 ? left.front().from : distribution.spec;
}

ShippingPtr open_shipping(const Distribution& distribution) {
  if (!leaves_host(distribution)) return nullptr;
  const auto left = left_to_devices(distribution);
  std::vector<std::shared_ptr<Stager>> stagers;
  for (const c10::Device device : distribution.devices) {
    std::optional<ImageNormalization> unpacking;
    if (!left.empty()) unpacking = left[left.size() == 1 ? 0 : stagers.size()].normalization;
    stagers.push_back(device.is_cpu()
                          ? nullptr
                          : std::make_shared<Stager>(open_dock(device), prefetch_bytes(distribution.options),
                                                     std::move(unpacking)));
  }
  return std::make_shared<Shipping>(std::move(stagers));
}

std::shared_ptr<BufferPool> batch_pool(const Distribution& distribution) {
  const c10::Device* const device = first_accelerator(distribution);
  return device == nullptr ? host_pool() : host_pool_for(*device);
}

ShippingPtr Shipping::only(std::size_t replica) const {
  return std::make_shared<Shipping>(std::vector{stagers_[replica]});
}

void Shipping::begin(BuiltStep& step) noexcept {
  try {
    step.staged.resize(stagers_.size());
    for (std::size_t replica = 0; replica < stagers_.size(); ++replica) {
      if (stagers_[replica]) step.staged[replica] = stagers_[replica]->try_stage(step.parts[replica]);
    }
  } catch (const std::exception&) {
    // Tried again in `deliver`, in the thread that can be told.
  }
}

std::vector<Element> Shipping::deliver(BuiltStep& step) {
  step.staged.resize(stagers_.size());
  for (std::size_t replica = 0; replica < stagers_.size(); ++replica) {
    if (stagers_[replica] && !step.staged[replica])
      step.staged[replica] = stagers_[replica]->stage(step.parts[replica], interrupt_check());
  }
  std::vector<Element> delivered;
  for (std::size_t replica = 0; replica < stagers_.size(); ++replica) {
    delivered.push_back(stagers_[replica] ? stagers_[replica]->deliver(step.staged[replica])
                                          : step.parts[replica]);
  }
  return delivered;
}

}  // namespace torch_distinput
