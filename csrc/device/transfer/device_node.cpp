// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/device_node.h"

#include <array>
#include <mutex>
#include <set>
#include <vector>

#include <ATen/DeviceAccelerator.h>

#include "base/numa.h"
#include "device/cuda_library.h"
#include "runtime/arena_cpus.h"

namespace torch_distinput {
std::optional<int> node_of_device(c10::Device device, const std::string& sysfs) {
  if (cpus_of_nodes(sysfs).size() < 2 || !device.is_cuda()) return std::nullopt;
  const CudaFunctions* const cuda = cuda_library().functions;
  std::array<char, 32> address{};
  if (cuda == nullptr || cuda->pci_address(device.index(), address.data(), address.size()) != 0)
    return std::nullopt;
  return node_of_pci_device(address.data(), sysfs);
}

void place_near_device(void* data, std::size_t bytes) {
  const auto type = at::accelerator::getAccelerator();
  if (!type) return;
  const auto node = node_of_device({*type, at::accelerator::getDeviceIndex()});
  if (node) place_on_node(data, bytes, *node);
}

void build_batches_near(c10::Device device) {
  static std::mutex mutex;
  static auto& used = *new std::set<int>();
  const std::optional<int> node = node_of_device(device);
  if (!node) return;
  const std::lock_guard lock(mutex);
  if (!used.insert(*node).second) return;
  keep_arenas_on(used.size() == 1 ? cpus_of_nodes()[*node] : std::vector<int>());
}

}  // namespace torch_distinput
