// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>

#include "base/of_process.h"
#include "io/block_claim.h"
#include "io/cache_keeper.h"
#include "io/cache_room.h"
#include "io/cache_root.h"
#include "io/open_files.h"

namespace torch_distinput {

/// What a cache is like now.
struct CacheView {
  std::string folder;
  std::string problem;      ///< why it is off; "" where it is not
  std::string note;         ///< that it is another one than users may expect; "" where it is not
  bool is_shared = true;    ///< with other processes
  std::uint64_t bytes = 0;  ///< that it takes
  CacheLimits limits;
};

/// A cache of blocks of objects in a folder of this machine, as one process uses it; a forked child opens the
/// folder anew. Where something is wrong with it, it is off, and reading goes on without it. Safe from any
/// thread. Never destroyed.
class DiskCache {
 public:
  DiskCache(std::string folder, CacheLimits limits);
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  const std::string& folder() const noexcept { return folder_; }
  const CacheLimits& limits() const noexcept { return limits_; }
  /// The folder, which the first call opens; null where the cache is off.
  const CacheRoot* root();
  /// It is off from now on, in this process.
  void turn_off(const std::string& problem);
  CacheView view();

  /// `BlockClaim::take`, for a block that is to be kept soon: the claim ends with the process at the latest.
  /// kBusy also where this process has a claim of it, or too many and nobody waits for the block
  /// (`is_ahead`); kNoRoom for a second after the last time, and where the cache is for reading only.
  BlockClaim::State claim(const CacheKey& key, std::uint64_t block, bool is_ahead,
                          std::shared_ptr<BlockClaim>& claim);
  /// `BlockClaim::keep`, unless the process ends. Without bytes it is given up. Ends the claim. False where
  /// the block was not kept.
  bool end(const CacheKey& key, std::uint64_t block, std::shared_ptr<BlockClaim>& claim,
           std::span<const char> bytes) noexcept;
  /// The files that were read last.
  OpenFiles& open_files() { return opened_.get().files; }
  /// Whether to wait for blocks that other processes get: not for a minute after `waited_in_vain`, as that
  /// one may stand still and have claimed many.
  bool may_wait();
  void waited_in_vain();
  /// Runs `task`, which must not throw, later on the thread of the cache.
  void post(const std::function<void()>& task);
  /// Gives up all claims: the process ends.
  void abandon() noexcept;

  /// Is called with a line about each cache that is turned off, full or another one than users may expect,
  /// once a process, from any thread.
  static void tell_troubles(void (*tell)(const std::string& line)) noexcept { teller = tell; }

 private:
  /// What a process has of it.
  struct Opened {
    std::mutex mutex;
    bool tried = false;
    CacheRootPtr root;
    std::atomic<const CacheRoot*> usable =
        nullptr;             ///< the root from when it was opened until the cache is off
    std::string problem;     ///< why it is off
    bool told_full = false;  ///< that there is no room
    std::chrono::steady_clock::time_point full_until{};
    std::chrono::steady_clock::time_point alone_until{};
    std::map<std::pair<Sha256, std::uint64_t>, std::shared_ptr<BlockClaim>> claims;  ///< by object and block
    std::shared_mutex keeping;  ///< shared while a block is written
    bool is_over = false;       ///< the process ends
    OpenFiles files{file_limit(kMostRead), std::max<std::size_t>(1, file_limit(kMostKnown) / kReaders)};
    CacheKeeper keeper;
  };
  static std::size_t file_limit(std::size_t most);
  static void tell(const std::string& line);
  bool is_full(Opened& opened) const;
  void find_full(const CacheRoot& root, Opened& opened, std::uint64_t bytes);

  /// As many as keep a fast link busy.
  static constexpr std::size_t kMostClaims = 512;
  /// 16 GiB.
  static constexpr std::size_t kMostRead = 4096;
  /// Besides, of all threads that read: so many for each, of which there are seldom more.
  static constexpr std::size_t kReaders = 16;
  static constexpr std::size_t kMostKnown = kReaders * 1024;
  static inline std::atomic<void (*)(const std::string&)> teller = nullptr;

  std::string folder_;
  CacheLimits limits_;
  OfProcess<Opened> opened_;
};

}  // namespace torch_distinput
