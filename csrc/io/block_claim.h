// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "io/cache_file.h"
#include "io/cache_room.h"

namespace torch_distinput {

/// The right to write a block of the cache: a lock of its place in its file, which the kernel releases when
/// the process ends; another process then takes the place over. The room of the block is taken with it, so
/// that who has it waits for nothing but a server. Where there are no locks, callers see that a process has
/// one claim of a block. One thread at a time.
class BlockClaim {
 public:
  enum class State {
    kMine,    ///< the block is not there, and nobody else writes it
    kThere,   ///< the block is there, or something else is in its place
    kBusy,    ///< another process writes it
    kNoRoom,  ///< the limits, the disk, or the files that this process may open leave no room
    kFailed,  ///< the system refuses to make the file; errno says why
  };
  /// Tries to take the claim, without waiting. `root` must live as long as what it sets `claim` to.
  static State take(const CacheRoot& root, const CacheLimits& limits, const CacheKey& key,
                    std::uint64_t block, std::optional<BlockClaim>& claim);

  ~BlockClaim() { end(); }
  BlockClaim(BlockClaim&& other) noexcept = default;
  BlockClaim& operator=(BlockClaim&& other) = delete;

  /// Writes the block, which is the others' from then on, unless somebody has removed the file. False where
  /// the system refuses.
  bool keep(const CacheKey& key, std::span<const char> bytes) noexcept;
  /// Ends the claim, and gives up what room it has taken unless the block was kept. Idempotent.
  void end() noexcept;

 private:
  BlockClaim(const CacheRoot& root, Descriptor file, std::string path, std::uint64_t block,
             const ByteRange& place)
      : root_(root), file_(std::move(file)), path_(std::move(path)), block_(block), place_(place) {}
  void give_up() noexcept;

  const CacheRoot& root_;
  Descriptor file_;
  std::string path_;
  std::uint64_t block_;
  ByteRange place_;
  bool has_new_room_ = false;  ///< nobody has read bytes of it
  bool is_kept_ = false;
};

/// Makes a block be no longer there, whose bytes are damaged, unless a process writes it anew.
void remove_block(const CacheRoot& root, const CacheKey& key, std::uint64_t block);

}  // namespace torch_distinput
