// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork_guard.h"
#include "torch_distinput/api.h"
#include "workers/frame_ring.h"
#include "workers/page_locks.h"
#include "workers/worker_memory.h"

namespace torch_distinput {

/// The slabs that this process uses. Any thread.
class TDI_API SlabsInUse {
 public:
  /// `locker`: page-locks slabs when `cover` is called; null: none are.
  explicit SlabsInUse(std::shared_ptr<WorkerMemory> memory, std::unique_ptr<PageLocker> locker = nullptr);

  /// A reference to a slab of `worker`; the slab returns to it after the last copy is gone, and all children
  /// that were forked meanwhile. In a forked child, whose parent still uses the slab, nothing happens then.
  static std::shared_ptr<char> hold(const std::shared_ptr<SlabsInUse>& slabs, int worker, std::uint64_t slab);
  /// As `PageLocks::cover` and `drop`, for a slab that is held.
  bool cover(std::uint64_t slab, std::uint64_t bytes) { return locks_ && locks_->cover(slab, bytes); }
  void uncover(std::uint64_t slab) {
    if (locks_) locks_->drop(slab);
  }
  /// No worker will write to a slab any more: gives the memory of those that are not in use back to the
  /// system now, that of the others when they are let go of.
  void end();

 private:
  struct Waiting {
    int worker;
    std::uint64_t slab;
    std::uint64_t first_fork;
  };

  void release(int worker, std::uint64_t slab, std::uint64_t first_fork) noexcept;
  void release_waiting();
  /// Returns whether nothing needs the memory of `slab` any more: then `discard` is to be called, without the
  /// lock.
  bool give_back(int worker, std::uint64_t slab) noexcept;
  void discard(std::uint64_t slab) noexcept;

  std::shared_ptr<WorkerMemory> memory_;
  std::unique_ptr<PageLocks> locks_;
  std::mutex mutex_;
  std::set<std::uint64_t> used_;
  std::vector<Waiting> waiting_;  // nobody here holds them, but a forked child may; part of `used_`
  bool ended_ = false;
};

/// The end of the consumer: sends tasks, receives results. One thread at a time, except for `wait` and
/// `wake`.
class TDI_API ConsumerEnd {
 public:
  /// `locker` as in `SlabsInUse`.
  explicit ConsumerEnd(std::shared_ptr<WorkerMemory> memory, std::unique_ptr<PageLocker> locker = nullptr);

  /// Never blocks: a task that does not fit into the ring is sent on by `receive`.
  void send(int worker, std::string_view task);
  /// The next result of any worker; -1 where there is none, else the worker.
  int receive(std::string& result);
  /// Sleeps until there may be a result, a signal, or the end of `limit`. The bell is heard from the last
  /// call of `receive` on, so that a result that came after it ends the sleep.
  void wait(std::chrono::nanoseconds limit) noexcept { memory_->to_consumer().wait(heard_, limit); }
  /// Ends `wait` in another thread.
  void wake() noexcept { memory_->to_consumer().ring(); }

  /// Whether this process is the one that made this object, not a fork of it.
  bool own() const noexcept { return !fork_guard_.inherited(); }

  const std::shared_ptr<WorkerMemory>& memory() const noexcept { return memory_; }
  const std::shared_ptr<SlabsInUse>& slabs() const noexcept { return slabs_; }

 private:
  std::shared_ptr<WorkerMemory> memory_;
  std::shared_ptr<SlabsInUse> slabs_;
  std::vector<FrameSender> tasks_;
  std::vector<FrameReceiver> results_;
  std::uint32_t heard_ = 0;
  ForkGuard fork_guard_;
  int next_ = 0;  // the worker whose ring is looked at first
};

}  // namespace torch_distinput
