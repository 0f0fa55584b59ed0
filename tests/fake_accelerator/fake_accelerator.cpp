// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "fake_accelerator.h"

#include <c10/core/DeviceType.h>

#include "state.h"

namespace torch_distinput::fake {

State& state() {
  static auto& only = *new State();
  return only;
}

Current& current() {
  thread_local Current here;
  return here;
}

Stream& stream_of(const c10::Stream& stream) {
  return state()
      .streams[static_cast<std::size_t>(stream.device_index())][static_cast<std::size_t>(stream.id())];
}

c10::Stream current_stream(c10::DeviceIndex device) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device),
                     current().stream[static_cast<std::size_t>(device)]);
}

void expect_current(c10::DeviceIndex device) {
  if (current().device != device) ++state().wrong_device;
}

void expect_guarded() {
  const auto guarded = state().guarded.load();
  if (guarded != nullptr && !guarded()) ++state().unguarded;
}

void expect_no_graph(const c10::Stream& stream) {
  if (stream_of(stream).records) ++state().captured;
}

void take_time(c10::DeviceIndex device) {
  const std::int64_t delay = state().delay[static_cast<std::size_t>(device)];
  if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
}

void install() {
  static const bool installed = [] {
    c10::register_privateuse1_backend("fake");
    register_allocators();
    register_guard_and_hooks();
    return true;
  }();
  static_cast<void>(installed);
}

Counts counts() {
  const State& now = state();
  return {now.copies,       now.copied_bytes, now.host_waits,   now.device_allocations, now.host_allocations,
          now.events,       now.collectives,  now.wrong_device, now.captured,           now.unguarded,
          now.driver_calls, now.registered,   now.registrations};
}

void reset() {
  State& now = state();
  now.copies = now.copied_bytes = now.host_waits = now.device_allocations = now.host_allocations =
      now.collectives = now.wrong_device = now.captured = now.unguarded = now.driver_calls =
          now.registrations = 0;
}

void set_delay(std::int64_t microseconds) {
  for (auto& delay : state().delay) delay = microseconds;
}
void set_delay(std::int64_t device, std::int64_t microseconds) {
  state().delay.at(static_cast<std::size_t>(device)) = microseconds;
}
void set_capturing(bool capturing) {
  for (auto& device : state().streams)
    for (c10::StreamId id = 0; id < kPoolStreams; ++id)
      device[static_cast<std::size_t>(id)].records = capturing;
}
void set_capturing(const c10::Stream& stream, bool capturing) { stream_of(stream).records = capturing; }
void set_most_registered(std::size_t bytes) { state().most_registered = bytes; }
void expect_calls_where(bool (*guarded)()) { state().guarded = guarded; }

void drain() {
  // Twice, because work of one stream may wait for another stream.
  for (int round = 0; round < 2; ++round) {
    for (auto& device : state().streams)
      for (Stream& stream : device) stream.wait();
  }
}

}  // namespace torch_distinput::fake
