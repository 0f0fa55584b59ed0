// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/fork_guard.h"
#include "torch_distinput/api.h"
#include "workers/shared_segment.h"

namespace torch_distinput {

/// Keeps memory of this process in its place, so that devices copy from it directly.
class PageLocker {
 public:
  virtual ~PageLocker() = default;
  /// Page-locks `bytes` bytes at `data`, whole pages; returns whether that was possible.
  virtual bool lock(char* data, std::uint64_t bytes) noexcept = 0;
  /// Takes back `lock(data, ...)`.
  virtual void unlock(char* data) noexcept = 0;
};

/// The page-locked slabs of a segment. A slab is locked once, and again when it is used up to a later page
/// than before, or when its worker has given its pages back to the system: locked pages would stay, but not
/// be those of the slab any more. Does nothing in a forked child, whose parent has locked the memory. Any
/// thread, but `cover` in one at a time. No lock of this class is held while the locker is called.
class TDI_API PageLocks {
 public:
  PageLocks(const SharedSegment& segment, std::unique_ptr<PageLocker> locker);
  /// Unlocks all. REQUIRES: the segment is still mapped.
  ~PageLocks();
  PageLocks(const PageLocks&) = delete;
  PageLocks& operator=(const PageLocks&) = delete;

  /// Locks the first `bytes` bytes of `slab`, which this process uses and no device reads; returns whether
  /// they are locked. After the first refusal nothing more is locked.
  bool cover(std::uint64_t slab, std::uint64_t bytes);
  /// Unlocks `slab`, if it is locked.
  void drop(std::uint64_t slab) noexcept;
  /// Unlocks all slabs but `kept`.
  void drop_except(const std::set<std::uint64_t>& kept) noexcept;

 private:
  bool covers(std::uint64_t slab, std::uint64_t bytes);
  void drop_discarded() noexcept;

  const SharedSegment* segment_;
  std::unique_ptr<PageLocker> locker_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> locked_;  // slab: bytes from its head on
  bool refused_ = false;
  ForkGuard fork_guard_;
};

}  // namespace torch_distinput
