// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "fake_accelerator.h"
#include "stream.h"

namespace torch_distinput::fake {

inline constexpr c10::DeviceType kType = c10::kPrivateUse1;
inline constexpr c10::DeviceIndex kDevices = 2;
/// Stream 0 is the default stream, those up to `kPoolStreams` are the pool, and each later one is given out
/// once, by `getNewStream`.
inline constexpr c10::StreamId kPoolStreams = 4;
inline constexpr c10::StreamId kStreams = 8;

/// All counters and settings. Never destroyed, because streams run until the process ends.
struct State {
  std::atomic<std::int64_t> copies{0}, copied_bytes{0}, host_waits{0}, device_allocations{0},
      host_allocations{0}, events{0}, collectives{0}, wrong_device{0}, captured{0}, unguarded{0},
      driver_calls{0}, registered{0}, registrations{0};
  std::atomic<std::size_t> most_registered{SIZE_MAX};
  std::array<std::atomic<std::int64_t>, kDevices> delay{};  // microseconds
  std::atomic<bool (*)()> guarded{nullptr};
  std::atomic<c10::StreamId> handed_out{0};
  std::array<std::atomic<c10::StreamId>, kDevices> own_streams{};  // number given out by `getNewStream`
  std::array<std::array<Stream, kStreams>, kDevices> streams;
};
State& state();

/// The calling thread's current device, and its current stream of each device.
struct Current {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kDevices> stream{};
};
Current& current();

Stream& stream_of(const c10::Stream& stream);
/// The calling thread's stream on `device`.
c10::Stream current_stream(c10::DeviceIndex device);
/// Counts a call for a device that is not the calling thread's.
void expect_current(c10::DeviceIndex device);
/// Counts a call that might disturb a graph which another thread records.
void expect_guarded();
/// Counts work for a stream that records a graph.
void expect_no_graph(const c10::Stream& stream);
/// Sleeps for the device's delay; called by streams.
void take_time(c10::DeviceIndex device);

c10::Allocator* device_allocator();
/// The address at which a stream finds the memory of `device_pointer`; null if it is not device memory.
void* memory_of(const void* device_pointer);
void use_on(const c10::DataPtr& data, const c10::Stream& stream);
bool is_page_locked(const void* pointer);

void register_guard_and_hooks();
void register_allocators();

}  // namespace torch_distinput::fake
