// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <time.h>

#include "base/descriptor.h"
#include "io/cache_key.h"
#include "io/cache_root.h"
#include "remote/http.h"

/// \file
/// A file of the cache: a head (magic, version of the format, object, range, and their CRC32C), a head for
/// each block of the range (a CRC32C for each page of its bytes, and one of the head), and the bytes of the
/// range. A block is there once its head is right. Files may hold anything: what is wrong is not read.

namespace torch_distinput {

/// Objects are kept in blocks of so many bytes; the last one may have fewer. A row costs at most a block more
/// than itself where its neighbours are never read.
inline constexpr std::uint64_t kCacheBlock = std::uint64_t{256} << 10;
/// So many blocks share a file, the last one may have fewer: a disk reads large files twice as fast as files
/// of single blocks.
inline constexpr std::uint64_t kFileBlocks = 16;
/// Bytes of an object that a file has room for.
inline constexpr std::uint64_t kFileRange = kFileBlocks * kCacheBlock;
/// Bytes that are checked together.
inline constexpr std::uint64_t kCachePage = std::uint64_t{16} << 10;
inline constexpr std::uint64_t kBlockPages = kCacheBlock / kCachePage;
/// Bytes of a file's head.
inline constexpr std::uint64_t kFileHead = 4096;
/// Where the first block lies, after a hole: the kernel keeps a block that lies at a multiple of its size in
/// one piece, from which it copies faster.
inline constexpr std::uint64_t kFirstPlace = kCacheBlock;

/// The bytes of block `block` of an object of `size` bytes. REQUIRES: there is one.
ByteRange block_range(std::uint64_t block, std::uint64_t size);
/// The number of the file of a block.
inline std::uint64_t file_of(std::uint64_t block) { return block / kFileBlocks; }
/// The bytes of an object that file `file` has room for.
ByteRange file_range(std::uint64_t file, std::uint64_t size);
/// The path of a file below the folder of the cache.
std::string file_path(const CacheKey& key, std::uint64_t file);
/// Bytes of a file.
std::uint64_t file_bytes(const CacheKey& key, std::uint64_t file);
/// Where the bytes of a block lie in its file.
ByteRange place_in_file(std::uint64_t block, std::uint64_t size);

/// The head of a file that has no block.
std::array<char, kFileHead> file_head(const CacheKey& key, std::uint64_t file);
/// Whether the open `file` has the size and the head of file `number`.
bool is_file_of(int file, const CacheKey& key, std::uint64_t number);

/// CRCs of the pages of a block.
using PageChecks = std::array<std::uint32_t, kBlockPages>;
/// Writes the head of a block with these bytes, which makes it be there. False for an error, which is in
/// errno.
bool write_block_head(int file, const CacheKey& key, std::uint64_t block,
                      std::span<const char> bytes) noexcept;
/// From now on the block is not there.
void remove_block_head(int file, std::uint64_t block) noexcept;
/// Whether any block may be there.
bool has_blocks(int file) noexcept;
/// The CRCs of a block; nullopt where it is not there.
std::optional<PageChecks> read_block_head(int file, const CacheKey& key, std::uint64_t block) noexcept;

/// Whose bytes lie in a file.
struct FileOwner {
  CacheKey key;  ///< without its folder
  std::uint64_t number = 0;
};
/// Reads the head of any file; nullopt where it is not that of a file of a cache.
std::optional<FileOwner> file_owner(int file);

/// An open file, for reading; also after it was removed. Safe from any thread.
class CacheFile {
 public:
  /// kUnreadable: the system refuses, as where this process has too many files open.
  enum class State { kThere, kNone, kDamaged, kUnreadable };
  /// Opens file `number` of an object. Sets `file` where it is there.
  static State open(const CacheRoot& root, const CacheKey& key, std::uint64_t number,
                    std::shared_ptr<const CacheFile>& file);

  std::uint64_t number() const noexcept { return number_; }
  /// Whether block `block` of the object, for which the file has room, is there.
  bool has(std::uint64_t block) const;
  /// Fills `into` with the bytes of the object from `offset` on: kThere, kNone or kDamaged. REQUIRES: they
  /// are of one block, for which the file has room. A page is checked when it is read first, and again
  /// whenever the file has changed since, up to a tick ago.
  State read(std::span<char> into, std::uint64_t offset) const;
  /// Fills `into` with the bytes of the object from `offset` on where they were read before and the file has
  /// not changed since, up to a tick ago; else returns false. REQUIRES: the file has room for them.
  bool read_checked(std::span<char> into, std::uint64_t offset) const;
  /// Whether its name was taken from it, a tick ago or before: it only takes room.
  bool was_removed() const;

 private:
  /// What is known of a block.
  struct Block {
    std::atomic<bool> is_there =
        false;  ///< its CRCs are known; they never change, as a version has one content
    PageChecks checks{};
  };
  /// Bytes that are read with one call.
  struct Piece {
    std::size_t size;
    bool is_checked;  ///< all of their pages were
  };

  CacheFile(Descriptor file, CacheKey key, std::uint64_t number, std::int64_t changed);
  Block& block(std::uint64_t number) const { return blocks_[number % kFileBlocks]; }
  std::optional<std::int64_t> last_change() const;
  bool read_range(std::span<char> into, std::uint64_t place) const;
  static Piece next_piece(std::uint32_t checked, std::uint64_t block_bytes, std::uint64_t offset,
                          std::size_t size);
  bool read_piece(const Piece& piece, const ByteRange& place, const PageChecks& checks, std::span<char> into,
                  std::uint64_t offset) const;
  bool read_part(const ByteRange& place, const PageChecks& checks, std::span<char> into,
                 std::uint64_t offset) const;

  std::atomic<std::uint32_t>& checked(std::uint64_t number) const { return checked_[number % kFileBlocks]; }

  // What `read_checked` looks at comes first: it lies in two lines of the processor's cache.
  /// Of each block, the pages that were right since the file has changed, a bit for each.
  alignas(64) mutable std::array<std::atomic<std::uint32_t>, kFileBlocks> checked_{};
  Descriptor file_;
  mutable std::atomic<bool> was_removed_ = false;
  mutable std::atomic<std::int64_t> changed_;        ///< when the file had changed last, in ns
  mutable std::atomic<std::int64_t> looked_at_ = 0;  ///< the tick in which that was looked at
  std::uint64_t number_;
  CacheKey key_;
  mutable std::mutex mutex_;  ///< of changes of what is mutable, except `looked_at_`
  mutable std::array<Block, kFileBlocks> blocks_;
};
using CacheFilePtr = std::shared_ptr<const CacheFile>;

}  // namespace torch_distinput
