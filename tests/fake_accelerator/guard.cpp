// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "state.h"

namespace torch_distinput::fake {
namespace {

using Event = std::shared_ptr<Mark>;

c10::Stream stream_at(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device), id);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kType, std::exchange(current().device, device.index())};
  }
  c10::Device getDevice() const override { return {kType, current().device}; }
  void setDevice(c10::Device device) const override { current().device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current().device = device.index(); }
  c10::DeviceIndex deviceCount() const noexcept override {
    ++state().driver_calls;
    return kDevices;
  }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_at(device.index(), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream_at(device.index(), 1 + state().handed_out++ % (kPoolStreams - 1));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    auto& given = state().own_streams[static_cast<std::size_t>(device.index())];
    const c10::StreamId id = kPoolStreams + given++;
    TORCH_CHECK(id < kStreams, "fake accelerator: no stream left");
    return stream_at(device.index(), id);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto device = stream.device_index();
    return stream_at(device, std::exchange(current().stream[static_cast<std::size_t>(device)], stream.id()));
  }
  bool queryStream(const c10::Stream& stream) const override { return stream_of(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    ++state().host_waits;
    stream_of(stream).wait();
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    ++state().host_waits;
    for (Stream& stream : state().streams[static_cast<std::size_t>(device)]) stream.wait();
  }
  bool isStreamCapturing(const c10::Stream& stream) const override { return stream_of(stream).records; }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    expect_current(stream.device_index());
    expect_guarded();
    expect_no_graph(stream);
    if (*event == nullptr) {
      *event = new Event(std::make_shared<Mark>());
      ++state().events;
    }
    Event mark = *static_cast<Event*>(*event);
    const std::int64_t version = mark->next();
    stream_of(stream).push([mark, version, device = stream.device_index()] {
      take_time(device);
      mark->reach(version);
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    expect_current(stream.device_index());
    expect_guarded();
    expect_no_graph(stream);
    if (event == nullptr) return;
    Event mark = *static_cast<Event*>(event);
    stream_of(stream).push([mark, version = mark->recorded()] { mark->wait(version); });
  }
  bool queryEvent(void* event) const override {
    expect_guarded();
    if (event == nullptr) return true;
    const Event& mark = *static_cast<Event*>(event);
    return mark->reached(mark->recorded());
  }
  void synchronizeEvent(void* event) const override {
    ++state().host_waits;
    if (event == nullptr) return;
    const Event& mark = *static_cast<Event*>(event);
    mark->wait(mark->recorded());
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) --state().events;
    delete static_cast<Event*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    expect_current(stream.device_index());
    use_on(data, stream);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override {
    ++state().driver_calls;
    return kDevices;
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { current().device = device; }
  c10::DeviceIndex getCurrentDevice() const override {
    ++state().driver_calls;
    return current().device;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(current().device, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  bool isPinnedPtr(const void* data) const override {
    expect_guarded();
    return is_page_locked(data);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(kType); }
};

}  // namespace

void register_guard_and_hooks() {
  static auto& guard = *new Guard();
  static auto& hooks = *new Hooks();
  static const c10::impl::DeviceGuardImplRegistrar registrar(kType, &guard);
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

}  // namespace torch_distinput::fake
