// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <memory>

#include "kernels/images.h"

namespace torch_distinput {

class BufferPool;

/// A point in the order of a stream's work; made by `CopyEngine::record`. Any thread may let go of it.
using Event = std::shared_ptr<void>;

/// The seam between batches and a device: memory on both sides, one stream of copies that lives as long as
/// the engine and is nobody else's, and events instead of waits. No call but `allocate_*` may wait for the
/// device. Any thread may call any member; each sets the device it needs before it touches the accelerator,
/// and leaves the thread's own device and stream as they were.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  virtual c10::Device device() const = 0;
  /// Recycled host memory from which the device copies by itself (page-locked where there is such a thing).
  virtual const std::shared_ptr<BufferPool>& host_pool() const = 0;
  /// Whether `copy_async` may read `data` as it lies, so that it need not go through `host_pool`.
  virtual bool reads_directly(const at::Tensor& host) const = 0;

  /// `bytes` (> 0) on the device, uint8, contents undefined. Belongs to the copy stream: once let go of, the
  /// memory may be reused by what is queued there later. Throws what the device's allocator throws.
  virtual at::Tensor allocate_device(std::size_t bytes) = 0;
  /// Queues a copy of `to.nbytes()` bytes on the copy stream. `from` stays valid and unchanged until an event
  /// recorded afterwards on that stream has completed.
  virtual void copy_async(const at::Tensor& to, const void* from) = 0;
  /// Queues the unpacking of images after the copies: `to` = what `unpack_images` makes of `from`. Both on
  /// the device and contiguous.
  virtual void unpack(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
                      at::Tensor& to) = 0;

  virtual c10::Stream copy_stream() const = 0;
  /// The stream on which the calling thread's next work on this device would be queued.
  virtual c10::Stream current_stream() const = 0;
  /// Whether that stream records a graph instead of doing its work.
  virtual bool capturing(const c10::Stream& stream) const = 0;

  /// Marks what is queued on `stream` now.
  virtual Event record(const c10::Stream& stream) = 0;
  /// Work queued on `stream` from now on starts after `event`.
  virtual void wait(const c10::Stream& stream, const Event& event) = 0;
  /// Whether the work before `event` is done.
  virtual bool query(const Event& event) = 0;
  /// Keeps device memory from being reused before the work queued on `stream` until it is let go of is done.
  virtual void hold_for(const c10::Storage& storage, const c10::Stream& stream) = 0;
};

/// The engine for host memory, in which a copy is done when the call returns. `pool`: where copies go.
std::shared_ptr<CopyEngine> make_inline_copy_engine(std::shared_ptr<BufferPool> pool);

/// The engine for any accelerator that torch knows, over torch's own streams, events and allocators. Sets up
/// the device. Throws c10::ValueError for a device that is no accelerator of this process.
std::shared_ptr<CopyEngine> make_c10_copy_engine(c10::Device device);

}  // namespace torch_distinput
