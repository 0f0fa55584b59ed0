// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <string>

namespace torch_distinput::fake {

/// What the fake accelerator was asked for since `reset`.
struct Counts {
  std::int64_t copies = 0;              ///< queued, in either direction
  std::int64_t copied_bytes = 0;        ///< of those copies
  std::int64_t host_waits = 0;          ///< times a host thread waited for a stream, an event or a device
  std::int64_t device_allocations = 0;  ///< of backing memory, not from the cache
  std::int64_t host_allocations = 0;    ///< of page-locked memory
  std::int64_t events = 0;              ///< made and not destroyed
  std::int64_t collectives = 0;         ///< of several devices
  std::int64_t wrong_device = 0;        ///< calls for a device other than the thread's current one
  std::int64_t captured = 0;            ///< work for streams that recorded a graph
  std::int64_t unguarded = 0;           ///< calls where `expect_calls_where` says that they disturb graphs
  std::int64_t driver_calls = 0;        ///< questions for the number of devices and the current one
};

/// An asynchronous accelerator with two devices, in this process, on torch's PrivateUse1. Streams are
/// threads; device memory cannot be read by the host and is poisoned when it is freed; page-locked memory is
/// known by address. Made once a process, named `fake`; never taken down.
void install();

Counts counts();
void reset();
/// Every copy and event takes at least this long.
void set_delay(std::int64_t microseconds);
/// The same for one device alone.
void set_delay(std::int64_t device, std::int64_t microseconds);
/// Whether all streams that users can get claim to record a graph.
void set_capturing(bool capturing);
/// The same for one stream.
void set_capturing(const c10::Stream& stream, bool capturing);
/// Counts what the device is asked for where `guarded`, called in the thread that asks, says no. Null:
/// nothing.
void expect_calls_where(bool (*guarded)());
/// Waits for all streams, without counting.
void drain();

/// Queues a kernel on the current stream that reads the bytes of a contiguous `tensor` when its turn comes,
/// whoever holds the tensor by then. The string is filled by `drain`.
std::shared_ptr<const std::string> snapshot(const at::Tensor& tensor);

}  // namespace torch_distinput::fake
