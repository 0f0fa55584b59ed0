// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace torch_distinput::fake {

/// Calls of the fake accelerator since `reset`.
struct Counts {
  std::int64_t copies = 0;              ///< queued, in either direction
  std::int64_t copied_bytes = 0;        ///< of those copies
  std::int64_t host_waits = 0;          ///< times a host thread waited for a stream, an event or a device
  std::int64_t device_allocations = 0;  ///< of backing memory, not from the cache
  std::int64_t host_allocations = 0;    ///< of page-locked memory
  std::int64_t events = 0;              ///< made and not destroyed; `reset` keeps it
  std::int64_t collectives = 0;         ///< of several devices
  std::int64_t wrong_device = 0;        ///< calls for a device other than the thread's current one
  std::int64_t captured = 0;            ///< work queued on streams that recorded a graph
  std::int64_t unguarded = 0;           ///< calls for which the function of `expect_calls_where` said no
  std::int64_t driver_calls = 0;        ///< queries of the number of devices and of the current one
  std::int64_t registered = 0;          ///< ranges of `register_host` now; `reset` keeps it
  std::int64_t registrations = 0;       ///< successful calls of it
};

/// Registers an asynchronous accelerator named `fake`, with two devices, as torch's PrivateUse1. Streams are
/// threads; the host cannot read device memory, which is poisoned when it is freed; page-locked memory is
/// recognized by address. Further calls do nothing; it is never removed. All functions here are safe from any
/// thread.
void install();

Counts counts();
/// Sets all counts but `events` to 0.
void reset();
/// Makes every copy and event take at least this long.
void set_delay(std::int64_t microseconds);
/// The same for one device alone.
void set_delay(std::int64_t device, std::int64_t microseconds);
/// Makes all streams that users can get claim to record a graph, or ends that.
void set_capturing(bool capturing);
/// The same for one stream.
void set_capturing(const c10::Stream& stream, bool capturing);
/// Counts, in `Counts::unguarded`, each call of the device for which `guarded` returns false in the calling
/// thread. Null: counts none.
void expect_calls_where(bool (*guarded)());
/// Page-locks memory that the host has allocated, as cudaHostRegister does. Returns false, and does nothing,
/// for memory of which some is page-locked, and for more bytes than `set_most_registered` allows.
bool register_host(void* data, std::size_t bytes);
/// Takes that back; false for other addresses.
bool unregister_host(void* data);
void set_most_registered(std::size_t bytes);
/// Waits for all streams; not counted as a host wait.
void drain();

/// Queues a kernel on the current stream that reads the bytes of a contiguous `tensor`, even if nothing holds
/// the tensor by then. The string is valid after `drain`.
std::shared_ptr<const std::string> snapshot(const at::Tensor& tensor);

}  // namespace torch_distinput::fake
