// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/values/devices.h"

#include <algorithm>
#include <optional>

#include <ATen/DeviceAccelerator.h>
#include <c10/util/Exception.h>

#include "device/device_count.h"
#include "torch_distinput/launch.h"

namespace torch_distinput {
namespace {

c10::Device parse(const std::string& name, const std::string& strategy) {
  try {
    return c10::Device(name);
  } catch (const c10::Error&) {
    TORCH_CHECK_VALUE(false, strategy, ": '", name,
                      "' is not a device; write 'cpu', 'cuda', 'cuda:0' or the like.");
  }
}

c10::Device find_accelerator(c10::Device device, const std::string& strategy) {
  const auto found = at::accelerator::getAccelerator();
  const auto count = found == device.type() ? device_count() : c10::DeviceIndex{0};
  // A single device is the current one. Asking torch for the current one would call the driver.
  const auto current = [&] { return count == 1 ? c10::DeviceIndex{0} : at::accelerator::getDeviceIndex(); };
  const auto index = device.has_index() || count == 0 ? device.index() : current();
  TORCH_CHECK_VALUE(index < count, strategy, ": device '", device.str(), "' does not exist: torch sees ",
                    static_cast<int>(count), " ", c10::DeviceTypeName(device.type(), /*lower_case=*/true),
                    " device(s).");
  return {device.type(), index};
}

c10::Device find_device(const std::string& name, const std::string& strategy) {
  const c10::Device device = parse(name, strategy);
  if (device.is_cpu()) return c10::Device(c10::kCPU);
  TORCH_CHECK_VALUE(at::accelerator::isAccelerator(device.type()), strategy, ": device '", device.str(),
                    "' is neither a CPU nor an accelerator.");
  return find_accelerator(device, strategy);
}

}  // namespace

std::vector<c10::Device> find_devices(const std::vector<std::string>& names, const std::string& strategy) {
  std::vector<c10::Device> devices;
  for (const std::string& name : names) {
    const c10::Device device = find_device(name, strategy);
    TORCH_CHECK_VALUE(device.is_cpu() || std::find(devices.begin(), devices.end(), device) == devices.end(),
                      strategy, ": device '", device.str(),
                      "' is named twice; only 'cpu' may be named for several replicas.");
    devices.push_back(device);
  }
  return devices;
}

std::vector<c10::Device> local_device(const std::string& strategy) {
  const auto type = at::accelerator::getAccelerator();
  const auto count = type ? device_count() : c10::DeviceIndex{0};
  if (count == 0) return {c10::Device(c10::kCPU)};
  const std::string name = c10::DeviceTypeName(*type, /*lower_case=*/true);
  if (count == 1) return find_devices({name}, strategy);
  const std::optional<int> local_rank = Launch::local_rank_in(Launch::variables(), strategy);
  return find_devices({local_rank ? name + ":" + std::to_string(*local_rank) : name}, strategy);
}

std::vector<c10::Device> all_devices() {
  const auto type = at::accelerator::getAccelerator();
  const auto count = device_count();
  if (count == 0) return {c10::Device(c10::kCPU)};
  std::vector<c10::Device> devices;
  for (c10::DeviceIndex index = 0; index < count; ++index) devices.emplace_back(*type, index);
  return devices;
}

}  // namespace torch_distinput
