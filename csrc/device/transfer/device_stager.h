// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

#include "base/fork_guard.h"
#include "kernels/images.h"
#include "torch_distinput/api.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

class BufferPool;
class CopyEngine;
class InFlightCopies;
struct HostTensors;
struct CopyBlock;

/// An element whose copies to a device are queued. May be released at any time, on any thread.
struct Staged;
using StagedPtr = std::shared_ptr<Staged>;

/// What all stagers of one device share: its engine, and so one stream of copies, and the host memory that
/// the device still reads. Safe from any thread.
struct DeviceContext {
  std::shared_ptr<CopyEngine> engine;
  std::shared_ptr<InFlightCopies> in_flight;  ///< of `engine`
};

/// The context of `device`, made at the first call and never destroyed. Sets up the device. Throws
/// c10::ValueError for a device that is not an accelerator. Safe from any thread.
TDI_API DeviceContext open_device_context(c10::Device device);

/// The pool of host memory from which the device copies asynchronously. Batches gathered into it are not
/// copied again on the host. Never destroyed. Does not set up the device.
std::shared_ptr<BufferPool> host_pool_for(c10::Device device);

/// Why `device` cannot unpack images with `channels` channels after their copy; empty if it can. Sets up no
/// device, but may load its driver.
std::string unpacking_obstacle(c10::Device device, std::int64_t channels);

/// What does not work for copies to `device` in this process, and why, for `explain()`; empty if all does.
/// Sets up no device, but may load its driver.
std::string delivery_limits(c10::Device device);

/// Copies the elements of one iterator to one device: leaves of up to 1 MiB share one block and one copy,
/// larger ones have one each. The host never waits for a copy: `deliver` queues a wait on the consumer's
/// stream instead. Device memory is reused only after the work that the consumer has queued, so delivered
/// elements stay valid as long as they are held. Strings, objects and datasets stay on the host; sparse and
/// ragged leaves are copied with their indices or offsets. All leaves must be in host memory. No work becomes
/// part of a graph that a user records.
class TDI_API DeviceStager {
 public:
  /// `budget`: bytes of copies that may be in flight; a larger element is copied alone. `unpacking`: how the
  /// device unpacks images after their copy, if at all. REQUIRES: then `unpacking_obstacle` is empty.
  DeviceStager(DeviceContext context, std::int64_t budget, std::optional<ImageNormalization> unpacking = {});
  /// Does not wait. Delivered elements stay valid; copies in flight complete.
  ~DeviceStager();
  DeviceStager(const DeviceStager&) = delete;
  DeviceStager& operator=(const DeviceStager&) = delete;

  /// Releases what this device has read, of all stagers. Does not wait. Safe from any thread.
  void collect();
  /// Queues the copies of `element`; null if they would exceed the budget now. Safe from any thread. Throws
  /// c10::TypeError for a leaf outside host memory, FailedPreconditionError while the copy stream records a
  /// graph, and what the device's allocator throws.
  StagedPtr try_stage(const Element& element);
  /// As `try_stage`, but waits until the budget allows it and calls `poll`, if set, about every 50 ms; what
  /// `poll` throws ends the wait. Safe from any thread.
  StagedPtr stage(const Element& element, const std::function<void()>& poll);

  /// The element, for use on the calling thread's current stream of the device. Ends the delivery before:
  /// memory of that element which the consumer has released may be reused after the work on the stream that
  /// was current then and on the one that is current now. Throws FailedPreconditionError while the current
  /// stream records a graph; a later call succeeds. One thread at a time.
  Element deliver(const StagedPtr& staged);

 private:
  struct Delivered {
    std::vector<c10::Storage> blocks;
    c10::Stream stream;
  };

  /// Allocates the memory that elements like the first will need, if there is enough, so that later ones
  /// allocate nothing. `unpacked`: bytes of each unpacked leaf of images.
  void reserve(const std::vector<CopyBlock>& copy_blocks, const std::vector<std::size_t>& unpacked);
  /// Indices of the tensors that the device unpacks.
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
  const ForkGuard fork_guard_;
};

}  // namespace torch_distinput
