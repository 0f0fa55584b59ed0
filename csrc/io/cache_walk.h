// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "io/cache_block.h"

namespace torch_distinput {

/// A version of an object that a cache has bytes of.
struct CachedVersion {
  std::string folder;       ///< as that of its key
  std::uint64_t bytes = 0;  ///< that its files take
  std::int64_t used = 0;    ///< when it was opened last, or a block was added, in seconds since 1970
};

/// All that the cache whose folder is open as `root` has, in any order. Other files are passed over.
std::vector<CachedVersion> walk_cache(int root);
/// Whose bytes lie in a folder of `walk_cache`; nullopt where no block of it tells.
std::optional<BlockOwner> owner_of(int root, const std::string& folder);
/// Removes its files, but for blocks that processes are about to write. Returns the bytes that it gave back.
std::uint64_t remove_version(int root, const std::string& folder);

/// Removes what processes that were killed were about to write. Returns the bytes that it gave back.
std::uint64_t remove_left_parts(int root, const std::string& folder);

/// What a file of `bytes` bytes takes of most file systems.
inline std::uint64_t on_disk(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }
inline std::uint64_t on_disk(const struct ::stat& status) {
  return on_disk(static_cast<std::uint64_t>(status.st_size));
}

/// The file in which the block of `path` is written.
inline std::string part_path(const std::string& path) { return path + ".part"; }

}  // namespace torch_distinput
