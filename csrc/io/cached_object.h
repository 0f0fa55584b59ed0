// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/of_process.h"
#include "io/cache_file.h"
#include "io/cache_key.h"
#include "io/disk_cache.h"
#include "remote/ahead_claim.h"
#include "remote/byte_set.h"
#include "remote/open_object.h"
#include "remote/remote_object.h"

namespace torch_distinput {

/// A version of an object whose bytes are read from a cache on disk, and whose store is asked for the blocks
/// that are not there: by one process at a time, which keeps them for all. Where a block cannot be kept, what
/// is wanted of it is read as without a cache. Safe from any thread.
class CachedObject final : public OpenObject, public std::enable_shared_from_this<CachedObject> {
 public:
  /// REQUIRES: `origin` has a tag, and was asked for nothing yet; `cache` lives as long as the process.
  static std::shared_ptr<CachedObject> make(std::shared_ptr<RemoteObject> origin, DiskCache& cache);

  const std::string& url() const noexcept override { return origin_->url(); }
  const ObjectVersion& version() const noexcept override { return origin_->version(); }
  void will_read(std::span<const ByteRange> ranges) override;
  std::size_t read(std::span<char> into, std::uint64_t offset, const Poll& poll) override;

 private:
  /// A block that this process gets and keeps.
  struct Fill {
    std::shared_ptr<CachedObject> owner;  ///< lives until it is over
    std::shared_ptr<BlockClaim> claim;
    std::vector<char> bytes;
    ByteSet missing;
    int readers = 0;  ///< that read it as it comes
    bool is_ending = false;
    bool is_over = false;  ///< it was kept or given up; the last reader lets its bytes go
  };
  using FillPtr = std::shared_ptr<Fill>;
  /// The blocks that one process gets, and those that it has seen: they are not looked for in advance.
  struct Window {
    std::mutex mutex;
    std::map<std::uint64_t, FillPtr> fills;
    std::vector<bool> seen;
    std::atomic<std::uint64_t> seen_blocks{0};  ///< how many of them are true
  };

  CachedObject(std::shared_ptr<RemoteObject> origin, DiskCache& cache);
  void note_use() const noexcept;
  bool has_seen_all();
  bool is_there(const CacheRoot& root, std::uint64_t block);
  void note_seen(std::uint64_t block, bool is_there);
  CacheFile::State open_file(const CacheRoot& root, std::uint64_t number, CacheFilePtr& file);
  void remove_damaged(const CacheRoot& root, std::uint64_t block, const CacheFilePtr& file);
  BlockClaim::State begin_ahead(std::uint64_t block);
  BlockClaim::State begin_fill(std::uint64_t block, bool is_ahead);
  void ask_for(std::span<const ByteRange> blocks);
  void announce_rest(const ByteRange& range);
  bool read_checked(std::span<char> into, std::uint64_t offset);
  void read_blocks(std::span<char> into, std::uint64_t offset, const Poll& poll);
  void read_block(std::uint64_t block, std::span<char> into, std::uint64_t offset, const Poll& poll);
  CacheFile::State read_kept(const CacheRoot& root, std::uint64_t block, std::span<char> into,
                             std::uint64_t offset);
  bool read_coming(std::uint64_t block, std::span<char> into, std::uint64_t offset, const Poll& poll);
  void take(const RangeTransfer& transfer) noexcept;
  void take(std::uint64_t block, Fill& fill, const RangeTransfer& transfer) noexcept;
  void finish(std::uint64_t block, std::span<const char> bytes) noexcept;

  std::shared_ptr<RemoteObject> origin_;
  DiskCache& cache_;
  CacheKey key_;
  AheadClaim asked_;  ///< for the bytes of blocks
  OfProcess<Window> window_;
};

}  // namespace torch_distinput
