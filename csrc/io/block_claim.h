// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <sys/types.h>

#include "io/cache_block.h"
#include "io/cache_room.h"

namespace torch_distinput {

/// The right to write a block of the cache: a lock of the file in which it is written, which the kernel
/// releases when the process ends; another process then takes the file over. The room of the block is taken
/// with it, so that who has it waits for nothing but a server. One thread at a time.
class BlockClaim {
 public:
  enum class State {
    kMine,    ///< the block is not there, and nobody else writes it
    kThere,   ///< the block is there
    kBusy,    ///< another process writes it
    kNoRoom,  ///< the limits, the disk, or the files that this process may open leave no room
    kFailed,  ///< the system refuses to make the file; errno says why
  };
  /// Tries to take the claim, without waiting. `root` must live as long as what it sets `claim` to.
  static State take(const CacheRoot& root, const CacheLimits& limits, const CacheKey& key,
                    std::uint64_t number, std::optional<BlockClaim>& claim);

  /// Gives it up, and removes the file, unless the block was kept.
  ~BlockClaim();
  BlockClaim(BlockClaim&& other) noexcept = default;
  BlockClaim& operator=(BlockClaim&& other) = delete;

  /// The file in which the block is written.
  const std::string& part() const noexcept { return part_; }
  ::ino_t inode() const noexcept { return inode_; }

  /// Writes the block and makes it the others', unless somebody has removed the file. False where the system
  /// refuses.
  bool keep(const CacheKey& key, std::span<const char> bytes) noexcept;

 private:
  BlockClaim(const CacheRoot& root, Descriptor file, std::string part, std::uint64_t number, ::ino_t inode)
      : root_(root), file_(std::move(file)), part_(std::move(part)), number_(number), inode_(inode) {}

  const CacheRoot& root_;
  Descriptor file_;
  std::string part_;
  std::uint64_t number_;
  ::ino_t inode_;
  bool is_kept_ = false;
};

}  // namespace torch_distinput
