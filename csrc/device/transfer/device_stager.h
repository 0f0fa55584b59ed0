// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/images.h"
#include "torch_distinput/api.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

class BufferPool;
class CopyEngine;
class InFlightCopies;
struct HostTensors;
struct CopyBlock;

/// An element whose copy to a device has begun. Letting go of it is always safe.
struct Staged;
using StagedPtr = std::shared_ptr<Staged>;

/// A device as all who bring data to it share it: its engine, hence one stream of copies, and the host memory
/// it still reads. Any thread may use it.
struct DeviceContext {
  std::shared_ptr<CopyEngine> engine;
  std::shared_ptr<InFlightCopies> in_flight;
};

/// The device context of `device`, made at the first call and never destroyed. Sets up the device. Throws
/// c10::ValueError for one that is no accelerator.
TDI_API DeviceContext open_device_context(c10::Device device);

/// The host memory from which copies to `device` start; batches gathered into it are not copied again on the
/// host. Does not touch the device.
std::shared_ptr<BufferPool> host_pool_for(c10::Device device);

/// Why `device` cannot unpack images of so many channels behind their copy; empty: it can. Sets up no device,
/// but may load its driver.
std::string unpacking_obstacle(c10::Device device, std::int64_t channels);

/// What the way to `device` lacks here, and why; empty: nothing. Sets up no device, but may load its driver.
std::string delivery_limits(c10::Device device);

/// Brings the elements of one iterator to one device: leaves of up to 1 MiB in one block and one copy, larger
/// ones each in their own. Nothing waits for the device; `deliver` queues a wait on the consumer's stream
/// instead. Device memory is reused only behind what the consumer has queued, so elements may be kept for
/// ever. Strings, objects and datasets stay on the host; sparse and ragged leaves go, with their indices. All
/// come from host memory. Nothing becomes part of a graph that is recorded meanwhile.
class TDI_API DeviceStager {
 public:
  /// `budget`: bytes that may be on the way at a time, at least one element. `unpacking`: what the device
  /// makes of images behind their copy, if anything; it must be able to (`can_unpack`).
  DeviceStager(DeviceContext context, std::int64_t budget, std::optional<ImageNormalization> unpacking = {});
  /// What was delivered stays valid; what is on the way arrives or is dropped.
  ~DeviceStager();
  DeviceStager(const DeviceStager&) = delete;
  DeviceStager& operator=(const DeviceStager&) = delete;

  /// Begins to copy `element`; null where that would exceed the budget now. Any thread.
  StagedPtr try_stage(const Element& element);
  /// The same, but waits for room; `poll` is called meanwhile and may throw. Any thread.
  StagedPtr stage(const Element& element, const std::function<void()>& poll);

  /// The element for use on the calling thread's current stream of the device. Takes back what it delivered
  /// before: from here on memory that the consumer has let go of may be reused, after the work on the stream
  /// that was current then and the one that is now. Throws FailedPreconditionError while the latter records a
  /// graph. One thread at a time.
  Element deliver(const StagedPtr& staged);

 private:
  struct Delivered {
    std::vector<c10::Storage> blocks;
    c10::Stream stream;
  };

  /// Takes the memory that elements like the first will need, as far as there is so much, so that none is
  /// allocated later. `unpacked`: bytes of what images become.
  void reserve(const std::vector<CopyBlock>& copy_blocks, const std::vector<std::size_t>& unpacked);
  /// The tensors of `tensors` that the device unpacks.
  std::vector<std::size_t> images_in(const HostTensors& tensors) const;
  StagedPtr begin(const Element& element);
  bool has_room(std::int64_t bytes) const;
  void take_back(const c10::Stream& now);

  DeviceContext context_;
  const std::int64_t budget_;
  const std::optional<ImageNormalization> unpacking_;
  std::shared_ptr<std::atomic<std::int64_t>> on_the_way_;
  std::once_flag reserved_;
  std::optional<Delivered> delivered_;
  const int process_;
};

}  // namespace torch_distinput
