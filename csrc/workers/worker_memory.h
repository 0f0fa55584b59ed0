// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/shared_segment.h"
#include "torch_distinput/api.h"
#include "workers/bell.h"
#include "workers/frame_ring.h"
#include "workers/slab_space.h"
#include "workers/worker_activity.h"

namespace torch_distinput {

/// What one worker and the consumer share besides the slabs.
struct WorkerControl {
  RingCounters tasks;
  RingCounters results;
  alignas(64) Bell to_worker;
  FreedSlabs freed;
  std::atomic<std::uint64_t> first_slab;   // where the worker's slabs begin; 0: at the begin of its space
  std::atomic<std::uint64_t> passed_over;  // so many tasks, of those that were sent first, are not wanted
  alignas(64) WorkerActivity activity;
};

/// The memory of a pool of workers: for each worker a ring for its tasks, a ring for its results and a space
/// of slabs; a bell that all workers ring for the consumer; a flag that the pool has been stopped.
class TDI_API WorkerMemory {
 public:
  static constexpr std::uint64_t kRing = std::uint64_t{1} << 16;

  /// Makes memory for `workers` workers. Throws std::invalid_argument for fewer than one, std::system_error
  /// where the system has no such memory.
  explicit WorkerMemory(int workers);
  /// Attaches the memory behind `fd`, which the result owns, to a process that was not forked from its maker.
  static std::shared_ptr<WorkerMemory> attach(int fd);

  SharedSegment& segment() noexcept { return segment_; }
  int workers() const noexcept;
  WorkerControl& control(int worker) noexcept;
  char* tasks(int worker) noexcept;
  char* results(int worker) noexcept;
  /// Offsets between which the worker's slabs lie.
  std::uint64_t slabs_begin(int worker) const noexcept;
  std::uint64_t slabs_end(int worker) const noexcept { return slabs_begin(worker) + slab_space_; }

  Bell& to_consumer() noexcept;
  /// Stops the pool for good.
  void stop() noexcept;
  bool stopped() noexcept;

 private:
  struct Head;
  struct Attached {
    int fd;
  };
  explicit WorkerMemory(Attached attached);
  Head& head() const noexcept;

  std::uint64_t slab_space_ = 0;  // bytes of a worker's slabs; set while `segment_` is made
  SharedSegment segment_;
};

}  // namespace torch_distinput
