// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "io/cache_limits.h"
#include "io/cache_root.h"

/// \file
/// How much a cache takes of its file system. All processes count in one file, `usage`, which they lock for
/// moments. It may hold too much, where processes were killed, but never too little; where it is damaged, or
/// seems to leave no room, what is there is counted anew. Safe from any thread.

namespace torch_distinput {

/// Gives `file`, which is new or was left by a process that was killed, `bytes` bytes on the disk. False
/// where the limits or the disk do not allow it.
bool take_room(const CacheRoot& root, const CacheLimits& limits, int file, std::uint64_t bytes);
/// Removes a file of a block. `inode`, unless 0: if it is still this one.
void remove_file(const CacheRoot& root, const std::string& path, ::ino_t inode = 0);
/// Bytes that the cache takes, as it was counted.
std::uint64_t used_room(const CacheRoot& root);
/// Makes room for `bytes` where the limits leave none, by what nobody is likely to want: files that killed
/// processes have left, versions of objects of which a later one was used since, and objects that were not
/// opened for a day, longest first. Does nothing within a minute after the last time.
void make_room(const CacheRoot& root, const CacheLimits& limits, std::uint64_t bytes);
/// Removes objects, those that were not used for longest first, until at most `most` bytes remain, and files
/// that processes which were killed have left. Returns what remains.
std::uint64_t trim_room(const CacheRoot& root, std::uint64_t most);

}  // namespace torch_distinput
