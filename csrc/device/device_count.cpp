// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/device_count.h"

#include <map>
#include <mutex>
#include <utility>

#include <ATen/DeviceAccelerator.h>

namespace torch_distinput {
namespace {

/// Leaked: a counter may be a Python function, and Python has ended when static objects are destroyed.
class Counters {
 public:
  static Counters& all() {
    static auto& counters = *new Counters();
    return counters;
  }
  std::function<int()> of(c10::DeviceType type) {
    const std::lock_guard lock(mutex_);
    const auto found = counters_.find(type);
    return found == counters_.end() ? nullptr : found->second;
  }
  void set(c10::DeviceType type, std::function<int()> count) {
    const std::lock_guard lock(mutex_);
    counters_[type] = std::move(count);
  }

 private:
  std::mutex mutex_;
  std::map<c10::DeviceType, std::function<int()>> counters_;
};

}  // namespace

c10::DeviceIndex device_count() {
  const auto type = at::accelerator::getAccelerator();
  if (!type) return 0;
  const auto count = Counters::all().of(*type);
  return count ? static_cast<c10::DeviceIndex>(count()) : at::accelerator::deviceCount();
}

void count_devices_with(c10::DeviceType type, std::function<int()> count) {
  Counters::all().set(type, std::move(count));
}

}  // namespace torch_distinput
