// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "device/cuda_library.h"
#include "device/transfer/capture_guard.h"
#include "device/transfer/copy_engine.h"
#include "device/transfer/device_node.h"
#include "device/transfer/page_locked.h"
#include "device/transfer/unpack_op.h"

namespace torch_distinput {
namespace {

/// Makes tensors plain even if the calling thread is in inference mode or in a mode written in Python.
class PlainMode {
  c10::InferenceMode inference_{false};
  c10::impl::ExcludeDispatchKeyGuard modes_{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

/// Keeps events for reuse, because making one is a call of the driver.
class EventShelf {
 public:
  std::unique_ptr<c10::Event> take(c10::DeviceType type) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<c10::Event>(type);
    auto event = std::move(free_.back());
    free_.pop_back();
    return event;
  }
  void put(std::unique_ptr<c10::Event> event) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(event));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<c10::Event>> free_;
};

/// A stream that torch does not give to users. torch's pool hands out its streams in turn, so a user's work,
/// or a graph that the user records, could be on the stream of the copies. Without the CUDA library there is
/// only the pool.
c10::Stream new_copy_stream(const c10::impl::VirtualGuardImpl& impl, c10::Device device) {
  const CaptureGuard capture;
  const c10::DeviceGuard guard(device);
  const CudaFunctions* const cuda = device.is_cuda() ? cuda_library().functions : nullptr;
  void* stream = nullptr;
  // torch identifies a stream that it did not make by its address.
  if (cuda != nullptr && cuda->new_stream(device.index(), &stream) == 0)
    return c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(stream));
  return impl.getNewStream(device);
}

/// Warns once if the CUDA library was built but cannot be used for `device`.
void tell_of_obstacle(c10::Device device) {
  if (!device.is_cuda() || !cuda_library().built) return;
  const std::string obstacle = cuda_library_obstacle(device);
  if (!obstacle.empty()) {
    TORCH_WARN_ONCE("torch_distinput: ", obstacle, ".");
  }
}

c10::Event& event_of(const Event& event) { return *static_cast<c10::Event*>(event.get()); }

class C10CopyEngine final : public CopyEngine {
 public:
  explicit C10CopyEngine(c10::Device device)
      : device_(device),
        impl_(device.type()),
        stream_(new_copy_stream(impl_, device)),
        pool_(page_locked_pool(device)) {
    build_batches_near(device);
  }

  c10::Device device() const override { return device_; }
  const std::shared_ptr<BufferPool>& host_pool() const override { return pool_; }
  bool reads_directly(const at::Tensor& host) const override {
    const CaptureGuard capture;
    const PlainMode plain;
    return host.is_pinned();
  }

  at::Tensor allocate_device(std::size_t bytes) override {
    const CaptureGuard capture;
    const PlainMode plain;
    const c10::StreamGuard guard(stream_);
    return at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions(at::kByte).device(device_));
  }

  void copy_async(const at::Tensor& to, const void* from) override {
    const CaptureGuard capture;
    const PlainMode plain;
    const c10::StreamGuard guard(stream_);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): read only
    to.copy_(at::from_blob(const_cast<void*>(from), to.sizes(), at::kByte), /*non_blocking=*/true);
  }

  void unpack(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
              at::Tensor& to) override {
    const CaptureGuard capture;
    const PlainMode plain;
    const c10::StreamGuard guard(stream_);
    unpack_on_device(from, channels, scaling, to);
  }

  c10::Stream copy_stream() const override { return stream_; }
  c10::Stream current_stream() const override { return impl_.getStream(device_); }
  bool capturing(const c10::Stream& stream) const override {
    const CudaFunctions* const cuda = device_.is_cuda() ? cuda_library().functions : nullptr;
    if (cuda == nullptr) return is_capturing(stream);
    int status = 0;
    const int error = cuda->capture_status(stream.native_handle(), &status);
    TORCH_CHECK(error == 0, "torch_distinput: whether stream ", stream.id(), " of ", device_,
                " records a graph is not known: ", cuda->error_text(error), ".");
    return status != 0;
  }

  // For these, backends switch to the stream's device and back, which would set up the thread's own device.
  // So the guard, which does not, switches first.
  Event record(const c10::Stream& stream) override {
    const CaptureGuard capture;
    const c10::DeviceGuard guard(device_);
    auto event = shelf_->take(device_.type());
    event->record(stream);
    return {event.release(), [shelf = shelf_](void* used) {
              shelf->put(std::unique_ptr<c10::Event>(static_cast<c10::Event*>(used)));
            }};
  }
  void wait(const c10::Stream& stream, const Event& event) override {
    const CaptureGuard capture;
    const c10::DeviceGuard guard(device_);
    event_of(event).block(stream);
  }
  bool query(const Event& event) override {
    const CaptureGuard capture;
    const c10::DeviceGuard guard(device_);
    return event_of(event).query();
  }
  void record_stream(const c10::Storage& storage, const c10::Stream& stream) override {
    const CaptureGuard capture;
    const c10::DeviceGuard guard(device_);
    impl_.recordDataPtrOnStream(storage.data_ptr(), stream);
  }

 private:
  /// Not every supported version of torch has `Stream::is_capturing`: torch 2.11 has not.
  template <class Stream>
  static bool is_capturing(const Stream& stream) {
    if constexpr (requires { stream.is_capturing(); }) {
      return stream.is_capturing();
    } else {
      return false;
    }
  }

  c10::Device device_;
  c10::impl::VirtualGuardImpl impl_;
  c10::Stream stream_;
  std::shared_ptr<BufferPool> pool_;
  std::shared_ptr<EventShelf> shelf_ = std::make_shared<EventShelf>();
};

}  // namespace

std::shared_ptr<CopyEngine> make_c10_copy_engine(c10::Device device) {
  TORCH_CHECK_VALUE(!device.is_cpu() && c10::impl::hasDeviceGuardImpl(device.type()), "device '",
                    device.str(), "' is not an accelerator of this process.");
  auto engine = std::make_shared<C10CopyEngine>(device);
  // The first tensor makes torch set up the device, on which its host allocator may rely.
  engine->allocate_device(1);
  tell_of_obstacle(device);
  return engine;
}

}  // namespace torch_distinput
