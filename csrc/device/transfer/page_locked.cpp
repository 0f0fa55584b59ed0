// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/page_locked.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/empty.h>

#include "base/numa.h"
#include "device/transfer/capture_guard.h"
#include "device/transfer/device_node.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

class PageLockedAllocator final : public BlockAllocator {
 public:
  PageLockedAllocator(at::HostAllocator* allocator, std::optional<int> node)
      : allocator_(allocator), node_(node) {}

  void* allocate(std::size_t bytes) override {
    const CaptureGuard capture;
    const NodeScope near(node_);
    at::DataPtr block = allocator_->allocate(bytes);
    void* const data = block.get();
    const std::lock_guard lock(mutex_);
    blocks_.emplace(data, std::move(block));
    return data;
  }

  void deallocate(void* data, std::size_t) noexcept override {
    const CaptureGuard capture;
    std::unordered_map<void*, at::DataPtr>::node_type freed;
    const std::lock_guard lock(mutex_);
    freed = blocks_.extract(data);
  }

 private:
  at::HostAllocator* const allocator_;
  const std::optional<int> node_;
  std::mutex mutex_;
  std::unordered_map<void*, at::DataPtr> blocks_;
};

}  // namespace

const std::shared_ptr<BufferPool>& page_locked_pool(c10::Device device) {
  static std::mutex mutex;
  // Leaked: blocks may be returned after static destruction, when drivers are gone.
  static auto& pools =
      *new std::map<std::pair<c10::DeviceType, std::optional<int>>, std::shared_ptr<BufferPool>>();
  const std::optional<int> node = node_of_device(device);
  const std::lock_guard lock(mutex);
  auto& pool = pools[{device.type(), node}];
  if (!pool) {
    constexpr std::size_t kLimit = std::size_t{1} << 30;
    at::HostAllocator* const allocator = at::getHostAllocator(device.type());
    pool = allocator == nullptr ? host_pool()
                                : BufferPool::create(std::make_shared<PageLockedAllocator>(allocator, node),
                                                     kLimit, Packing::kTogether);
  }
  return pool;
}

const std::shared_ptr<BufferPool>& pinned_pool() {
  static const auto& pool = *new std::shared_ptr<BufferPool>([] {
    const auto type = at::accelerator::getAccelerator();
    if (!type || at::accelerator::deviceCount() == 0) return host_pool();
    const CaptureGuard capture;
    // torch reports no memory as page-locked before it has set up the device, which making a page-locked
    // tensor does. (`lazyInitDevice` would be inlined here, with a symbol of torch's CUDA hooks.)
    (void)at::empty({1}, at::TensorOptions().pinned_memory(true));
    at::HostAllocator* const allocator = at::getHostAllocator(*type);
    const c10::Device current(*type, at::accelerator::getDeviceIndex());
    return allocator == nullptr
               ? host_pool()
               : BufferPool::create(std::make_shared<PageLockedAllocator>(allocator, node_of_device(current)),
                                    0, Packing::kApart);
  }());
  return pool;
}

}  // namespace torch_distinput
