// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/fork_guard.h"
#include "base/shared_segment.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// Page-locks memory of this process, so that devices copy from it directly.
class PageLocker {
 public:
  virtual ~PageLocker() = default;
  /// Page-locks `bytes` bytes at `data`, whole pages; returns whether that worked.
  virtual bool lock(char* data, std::uint64_t bytes) noexcept = 0;
  /// Undoes `lock(data, ...)`.
  virtual void unlock(char* data) noexcept = 0;
};

/// The page-locked slabs of a segment. A slab is locked once. It is locked again when more of its pages are
/// used than before, and when its worker has given its pages back to the system, because the locked pages are
/// then no longer the slab's. Does nothing in a forked child, whose parent has locked the memory. Safe from
/// any thread, but only one may call `cover` at a time. Holds no lock of its own while it calls the locker.
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
  /// Unlocks all slabs in [begin, end) but `kept`.
  void drop_except(const std::set<std::uint64_t>& kept, std::uint64_t begin = 0,
                   std::uint64_t end = UINT64_MAX) noexcept;

 private:
  bool covers(std::uint64_t slab, std::uint64_t bytes);
  void drop_discarded() noexcept;

  const SharedSegment* segment_;
  std::unique_ptr<PageLocker> locker_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> locked_;  // by slab: bytes from its head on
  bool refused_ = false;
  ForkGuard fork_guard_;
};

}  // namespace torch_distinput
