// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "io/cache_file.h"

namespace torch_distinput {

/// A version of an object that a cache has bytes of.
struct CachedVersion {
  std::string folder;       ///< as that of its key
  std::uint64_t bytes = 0;  ///< that its files take
  std::int64_t used = 0;    ///< when it was opened last, or a file was added, in seconds since 1970
};

/// All that the cache whose folder is open as `root` has, in any order. Other files are passed over.
std::vector<CachedVersion> walk_cache(int root);
/// Whose bytes lie in a folder of `walk_cache`; nullopt where no file of it tells.
std::optional<FileOwner> owner_of(int root, const std::string& folder);
/// Removes its files, but for those that processes are about to write to. Returns the bytes that it gave
/// back.
std::uint64_t remove_version(int root, const std::string& folder);

/// Takes room away that processes which were killed have left without bytes. Returns what it gave back.
std::uint64_t remove_left(int root, const std::string& folder);

/// What `bytes` bytes take of most file systems.
inline std::uint64_t on_disk(std::uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }
/// What the head and the blocks of a file take. What the file system takes beside them, to find them, is left
/// out: it changes while nobody writes.
std::uint64_t on_disk(const struct ::stat& status);

}  // namespace torch_distinput
