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

/// The slabs that this process uses. Safe from any thread.
class TDI_API SlabsInUse {
 public:
  /// `locker`: page-locks slabs when `cover` is called; null: none are.
  explicit SlabsInUse(std::shared_ptr<WorkerMemory> memory, std::unique_ptr<PageLocker> locker = nullptr);

  /// A reference to a slab of `worker`. The slab returns to the worker when the last copy and all children
  /// that were forked meanwhile are gone. The copies in a forked child return nothing, because its parent
  /// still uses the slab.
  static std::shared_ptr<char> hold(const std::shared_ptr<SlabsInUse>& slabs, int worker, std::uint64_t slab);
  /// As `PageLocks::cover` and `drop`, for a slab that is held.
  bool cover(std::uint64_t slab, std::uint64_t bytes) { return locks_ && locks_->cover(slab, bytes); }
  void uncover(std::uint64_t slab) {
    if (locks_) locks_->drop(slab);
  }
  /// Call when `worker` has ended and before another process takes its place, whose slabs will lie behind
  /// those that are still used. Frees the unused ones.
  void renew(int worker);
  /// Call when no worker writes any more. Frees unused slabs now and the others when they are released.
  void end();

 private:
  struct Waiting {
    int worker;
    std::uint64_t slab;
    std::uint64_t first_fork;
  };

  void release(int worker, std::uint64_t slab, std::uint64_t first_fork) noexcept;
  void release_waiting();
  /// Returns whether the caller must `discard` the slab, without the lock, because nothing needs its memory
  /// any more.
  bool give_back(int worker, std::uint64_t slab) noexcept;
  void discard(std::uint64_t slab) noexcept;
  /// Frees all memory in [begin, end) but that of `used`; returns where the last of these ends, or `begin`.
  std::uint64_t discard_except(const std::set<std::uint64_t>& used, std::uint64_t begin, std::uint64_t end);

  std::shared_ptr<WorkerMemory> memory_;
  std::unique_ptr<PageLocks> locks_;
  std::mutex mutex_;
  std::set<std::uint64_t> used_;
  std::vector<Waiting> waiting_;  // released here, but visible to a forked child; also in `used_`
  bool ended_ = false;
};

/// The consumer's end: sends tasks, receives results. One thread at a time, except for `wait` and `wake`.
class TDI_API ConsumerEnd {
 public:
  /// `locker` as in `SlabsInUse`.
  explicit ConsumerEnd(std::shared_ptr<WorkerMemory> memory, std::unique_ptr<PageLocker> locker = nullptr);

  /// Never blocks: `receive` sends the rest of a task that does not fit into the ring.
  void send(int worker, std::string_view task);
  /// Tells `worker` that the tasks sent so far are not wanted any more. One that it is at is done all the
  /// same.
  void pass_over(int worker) noexcept { memory_->control(worker).passed_over.store(sent_[worker]); }
  /// Moves the next result of any worker to `result` and returns the worker; -1 if there is none.
  int receive(std::string& result);
  /// Call when `worker` has ended, all its whole results have been received, and another process will take
  /// its place. Drops its tasks and what it was about to send.
  void renew(int worker);
  /// What `worker` does.
  Activity activity(int worker) const noexcept { return memory_->control(worker).activity.read(); }
  /// Sleeps until there may be a result, a signal, or the end of `limit`. A result that came after the last
  /// call of `receive` ends the sleep at once.
  void wait(std::chrono::nanoseconds limit) noexcept { memory_->to_consumer().wait(heard_, limit); }
  /// Ends `wait` in another thread.
  void wake() noexcept { memory_->to_consumer().ring(); }

  /// Whether this process made this object; false in its forked children.
  bool own() const noexcept { return !fork_guard_.inherited(); }

  const std::shared_ptr<WorkerMemory>& memory() const noexcept { return memory_; }
  const std::shared_ptr<SlabsInUse>& slabs() const noexcept { return slabs_; }

 private:
  std::shared_ptr<WorkerMemory> memory_;
  std::shared_ptr<SlabsInUse> slabs_;
  std::vector<FrameSender> tasks_;
  std::vector<FrameReceiver> results_;
  std::vector<std::uint64_t> sent_;  // tasks, by worker
  std::uint32_t heard_ = 0;
  ForkGuard fork_guard_;
  int next_ = 0;  // the worker whose ring is read first
};

}  // namespace torch_distinput
