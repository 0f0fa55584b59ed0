// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "kernels/images.h"

namespace torch_distinput {

class BufferPool;

/// A point in the order of a stream's work, made by `CopyEngine::record`. May be released on any thread.
using Event = std::shared_ptr<void>;

/// The interface between batches and a device: memory on both sides, one stream of copies that nothing else
/// uses and that lives as long as the engine, and events instead of waits. Only `allocate_device` may wait
/// for the device. Safe from any thread; every call leaves the thread's current device and stream as they
/// were.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  /// The device to which copies go, with its index.
  virtual c10::Device device() const = 0;
  /// Recycled host memory from which the device copies asynchronously: page-locked, if the device has such.
  virtual const std::shared_ptr<BufferPool>& host_pool() const = 0;
  /// Whether `copy_async` is asynchronous from the memory of `host`, so that it needs no copy to `host_pool`.
  virtual bool reads_directly(const at::Tensor& host) const = 0;

  /// A uint8 tensor of `bytes` (> 0) on the device, contents undefined. It belongs to the copy stream: once
  /// released, work queued there later may reuse its memory. Throws what the device's allocator throws.
  virtual at::Tensor allocate_device(std::size_t bytes) = 0;
  /// Queues a copy of `to.nbytes()` bytes on the copy stream. REQUIRES: `from` stays valid and unchanged
  /// until an event recorded afterwards on that stream has completed.
  virtual void copy_async(const at::Tensor& to, const void* from) = 0;
  /// Queues on the copy stream: `to` = the result of `unpack_images` (kernels/images.h) for `from`. REQUIRES:
  /// both are on the device and contiguous; `to` has the shape and dtype of the result.
  virtual void unpack(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
                      at::Tensor& to) = 0;

  /// The stream of this engine's copies.
  virtual c10::Stream copy_stream() const = 0;
  /// The calling thread's current stream of this device.
  virtual c10::Stream current_stream() const = 0;
  /// Whether `stream` records a graph instead of executing its work.
  virtual bool capturing(const c10::Stream& stream) const = 0;

  /// An event after all work that is queued on `stream` now.
  virtual Event record(const c10::Stream& stream) = 0;
  /// Makes work that is queued on `stream` from now on start after `event`.
  virtual void wait(const c10::Stream& stream, const Event& event) = 0;
  /// Whether the work before `event` is done.
  virtual bool query(const Event& event) = 0;
  /// Delays the reuse of device memory, once released, until the work queued on `stream` by then is done, as
  /// `Tensor.record_stream` does.
  virtual void record_stream(const c10::Storage& storage, const c10::Stream& stream) = 0;
};

/// An engine for any accelerator that torch supports, over torch's events and allocators. Sets up the device.
/// Throws c10::ValueError for a device that is not an accelerator of this process.
std::shared_ptr<CopyEngine> make_c10_copy_engine(c10::Device device);

}  // namespace torch_distinput
