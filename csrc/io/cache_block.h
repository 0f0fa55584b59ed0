// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <time.h>

#include "base/descriptor.h"
#include "io/cache_key.h"
#include "io/cache_root.h"
#include "remote/http.h"

/// \file
/// The file of a block: a head (magic, version of the format, object, range, a CRC32C for each page of bytes
/// and one of the head), and the bytes. Files may hold anything: what is wrong is not read.

namespace torch_distinput {

/// Objects are kept in blocks of so many bytes; the last one may have fewer. A row costs at most a block more
/// than itself where its neighbours are never read.
inline constexpr std::uint64_t kCacheBlock = std::uint64_t{256} << 10;
/// Bytes that are checked together.
inline constexpr std::uint64_t kCachePage = std::uint64_t{16} << 10;

/// The bytes of block `number` of an object of `size` bytes. REQUIRES: there is one.
ByteRange block_range(std::uint64_t number, std::uint64_t size);
/// The path of the file of a block below the folder of the cache.
std::string block_path(const CacheKey& key, std::uint64_t number);
/// Bytes of the file of a block.
std::uint64_t block_file_bytes(const CacheKey& key, std::uint64_t number);
/// The head of the file of a block with these bytes.
std::vector<char> block_head(const CacheKey& key, std::uint64_t number, std::span<const char> bytes);

/// Whose block lies in a file.
struct BlockOwner {
  std::string url;
  std::string tag;
  std::uint64_t size = 0;
};
/// Reads the head of any file; nullopt where it is not that of a block.
std::optional<BlockOwner> block_owner(int file);

/// An open block; it can be read after its file was removed. Safe from any thread.
class CacheBlock {
 public:
  /// kUnreadable: the system refuses, as where this process has too many files open.
  enum class State { kThere, kNone, kDamaged, kUnreadable };
  /// Opens a block of the cache. Sets `block` where it is there.
  static State open(const CacheRoot& root, const CacheKey& key, std::uint64_t number,
                    std::shared_ptr<const CacheBlock>& block);

  std::uint64_t number() const noexcept { return number_; }
  /// Fills `into` with the bytes of the object from `offset` on. False where they are damaged. REQUIRES: the
  /// block has them. A page is checked when it is read first, and again whenever the file has changed since
  /// the block was opened, up to a tick ago.
  bool read(std::span<char> into, std::uint64_t offset) const;

 private:
  /// Pages of a block, a bit for each.
  using Pages = std::uint32_t;
  static_assert(kCacheBlock / kCachePage <= 32);

  CacheBlock(Descriptor file, std::uint64_t number, const ByteRange& range, std::vector<std::uint32_t> checks,
             std::uint64_t head_bytes, const ::timespec& changed);
  bool has_changed() const;
  std::size_t next_size(Pages checked, std::uint64_t offset, std::size_t size) const;
  bool read_piece(Pages checked, std::span<char> into, std::uint64_t offset) const;
  bool read_part(std::uint64_t page, std::span<char> into, std::uint64_t offset) const;
  bool is_whole(std::uint64_t first_page, std::span<const char> bytes) const;

  Descriptor file_;
  std::uint64_t number_;
  ByteRange range_;
  std::vector<std::uint32_t> checks_;  ///< of pages
  std::uint64_t head_bytes_;
  ::timespec changed_;                             ///< when the file had changed last as it was opened
  mutable std::atomic<std::int64_t> same_at_ = 0;  ///< the tick in which that was so last
  mutable std::atomic<Pages> checked_ = 0;
};
using CacheBlockPtr = std::shared_ptr<const CacheBlock>;

}  // namespace torch_distinput
