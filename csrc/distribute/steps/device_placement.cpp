// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/device_placement.h"

#include <algorithm>
#include <utility>

#include "device/transfer/device_stager.h"
#include "runtime/buffer_pool.h"

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

/// Why not all `devices` can unpack images with `channels` channels; empty if they can.
std::string obstacle_of(const std::vector<c10::Device>& devices, std::int64_t channels) {
  for (const c10::Device device : devices) {
    if (std::string obstacle = unpacking_obstacle(device, channels); !obstacle.empty()) return obstacle;
  }
  return "";
}

/// The last op of each pipeline.
std::vector<NodePtr> roots(const Distribution& distribution) {
  if (distribution.pipelines.empty()) return {distribution.assignment.node};
  std::vector<NodePtr> nodes;
  for (const DistributionPtr& pipeline : distribution.pipelines) nodes.push_back(pipeline->assignment.node);
  return nodes;
}

}  // namespace

bool leaves_host(const Distribution& distribution) { return first_accelerator(distribution) != nullptr; }

Unpacking unpacking_on_devices(const Distribution& distribution) {
  if (!leaves_host(distribution)) return {};
  Unpacking unpacking;
  for (const NodePtr& root : roots(distribution)) {
    LastNormalizationPtr last = root->last_normalization();
    if (!last || !last->normalization.batched) return {};
    std::string obstacle = obstacle_of(distribution.devices, last->normalization.scaling.channels());
    if (!obstacle.empty()) return {{}, std::move(obstacle)};
    unpacking.left.push_back(std::move(last));
  }
  return unpacking;
}

std::vector<LastNormalizationPtr> left_to_devices(const Distribution& distribution) {
  return unpacking_on_devices(distribution).left;
}

SpecPtr host_spec(const Distribution& distribution) {
  const auto left = left_to_devices(distribution);
  return left.size() == 1 ? left.front()->from : distribution.spec;
}

std::shared_ptr<BufferPool> batch_pool(const Distribution& distribution) {
  const c10::Device* const device = first_accelerator(distribution);
  return device == nullptr ? host_pool() : host_pool_for(*device);
}

}  // namespace torch_distinput
