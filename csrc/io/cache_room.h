// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "io/cache_key.h"
#include "io/cache_limits.h"
#include "io/cache_root.h"
#include "remote/http.h"

/// \file
/// How much a cache takes of its file system. All processes count in one file, `usage`, which they lock for
/// moments. It may hold too much, where processes were killed, but never too little; where it is damaged, or
/// seems to leave no room, what is there is counted anew. Safe from any thread.

namespace torch_distinput {

/// Opens file `number` of an object for writing; makes it where there is none, or none that is right. Not
/// open where there is no room (errno ENOSPC), or the system refuses (errno).
Descriptor open_or_make(const CacheRoot& root, const CacheLimits& limits, const CacheKey& key,
                        std::uint64_t number);
/// Gives `range` of an open file room on the disk. nullopt where the limits or the disk do not allow it, else
/// the bytes of it that had none before, as far as that is known.
std::optional<std::uint64_t> take_room(const CacheRoot& root, const CacheLimits& limits, int file,
                                       const ByteRange& range);
/// Takes the room of a range of an open file away, of which nobody has read bytes.
void give_room(const CacheRoot& root, int file, const ByteRange& range);
/// Removes a file. `inode`, unless 0: if it is still this one.
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
