// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/fork_guard.h"
#include "torch_distinput/api.h"
#include "workers/frame_ring.h"
#include "workers/worker_memory.h"

namespace torch_distinput {

/// A worker's end: receives tasks, sends results. One thread at a time.
class TDI_API WorkerEnd {
 public:
  WorkerEnd(std::shared_ptr<WorkerMemory> memory, int worker);

  /// Moves the next task to `task`; false if there is none.
  bool receive(std::string& task);
  /// Whether the result of the task that was received last is wanted.
  bool wanted() const noexcept { return received_ > control_->passed_over.load(); }
  void send(std::string_view result);
  /// Whether all results have been written to the ring; if not, call `wait` and ask again.
  bool flushed();
  /// Sleeps until the consumer has sent or received something, a signal, or the end of `limit`. A ring after
  /// the last call of `receive` or `flushed` ends the sleep at once.
  void wait(std::chrono::nanoseconds limit) noexcept { control_->to_worker.wait(heard_, limit); }

  /// As `SlabSpace::allocate`.
  std::uint64_t allocate(std::uint64_t bytes) { return slabs_.allocate(bytes); }
  /// Gives memory that no batch uses back to the system.
  void give_back() noexcept { slabs_.give_back(); }
  char* at(std::uint64_t slab) const noexcept { return memory_->segment().data() + slab; }

  /// What this worker does, for its consumer to see.
  WorkerActivity& activity() noexcept { return control_->activity; }

  bool stopped() const noexcept { return memory_->stopped(); }
  /// Whether this process made this object; false in its forked children.
  bool own() const noexcept { return !fork_guard_.inherited(); }

 private:
  std::shared_ptr<WorkerMemory> memory_;
  WorkerControl* control_;
  FrameReceiver tasks_;
  FrameSender results_;
  SlabSpace slabs_;
  std::uint64_t received_ = 0;  // tasks
  std::uint32_t heard_ = 0;
  ForkGuard fork_guard_;
};

}  // namespace torch_distinput
