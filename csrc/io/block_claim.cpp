// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/block_claim.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/cache_walk.h"
#include "io/file_bytes.h"
#include "io/file_lock.h"

namespace torch_distinput {
namespace {

/// The file `path`, whose folder may be removed while it is made. Where there are no locks, it must be new.
Descriptor make_part(const CacheRoot& root, const CacheKey& key, const std::string& path) {
  const int flags = root.is_shared() ? 0 : O_EXCL;
  for (int tries = 0; tries < 8; ++tries) {
    Descriptor file = root.open_file(path, flags);
    // A process that was killed has not come to give the file its mode. One that lives finds that it is gone.
    if (!file.open() && root.is_new_of_others(errno) && ::unlinkat(root.number(), path.c_str(), 0) == 0)
      continue;
    if (file.open() || errno != ENOENT) return file;
    root.make_folder(key.folder.substr(0, 2));
    root.make_folder(key.folder);
  }
  return Descriptor();
}

BlockClaim::State state_without_file(const CacheRoot& root, int code) {
  if (root.is_new_of_others(code)) return BlockClaim::State::kBusy;
  switch (code) {
    case EEXIST:
      return BlockClaim::State::kBusy;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return BlockClaim::State::kNoRoom;
    default:
      return BlockClaim::State::kFailed;
  }
}

/// Whether `path` is the name of the file with this inode.
bool is_named(int root, const std::string& path, ::ino_t inode) {
  struct ::stat status;
  return ::fstatat(root, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == inode;
}

/// Writes a file of two parts. In one call, as the kernel then keeps it in memory in large pieces, from which
/// a reader copies faster.
bool write_both(int file, std::span<const char> head, std::span<const char> bytes) {
  const auto part = [](std::span<const char> of) { return ::iovec{const_cast<char*>(of.data()), of.size()}; };
  const std::array parts{part(head), part(bytes)};
  const ::ssize_t written = ::pwritev(file, parts.data(), static_cast<int>(parts.size()), 0);
  if (written == static_cast<::ssize_t>(head.size() + bytes.size())) return true;
  return write_at(file, head, 0) && write_at(file, bytes, head.size());
}

bool is_there(int root, const std::string& path) { return ::faccessat(root, path.c_str(), F_OK, 0) == 0; }

}  // namespace

BlockClaim::State BlockClaim::take(const CacheRoot& root, const CacheLimits& limits, const CacheKey& key,
                                   std::uint64_t number, std::optional<BlockClaim>& claim) {
  const std::string path = block_path(key, number);
  const std::string part = part_path(path);
  Descriptor file = make_part(root, key, part);
  struct ::stat status;
  if (!file.open()) return state_without_file(root, errno);
  if (::fstat(file.number(), &status) != 0) return State::kFailed;
  if (root.is_shared() && !try_lock(file.number(), LOCK_EX))
    return errno == EWOULDBLOCK ? State::kBusy : State::kFailed;
  // Who had it before may have given the file its name, or removed it.
  if (!is_named(root.number(), part, status.st_ino)) return State::kBusy;
  BlockClaim taken(root, std::move(file), part, number, status.st_ino);
  if (is_there(root.number(), path)) return State::kThere;
  if (!take_room(root, limits, taken.file_.number(), block_file_bytes(key, number))) return State::kNoRoom;
  claim.emplace(std::move(taken));
  return State::kMine;
}

BlockClaim::~BlockClaim() {
  if (!file_.open()) return;
  if (!is_kept_) remove_file(root_, part_, inode_);
  // Explicitly, because a child that was forked meanwhile has the descriptor, too.
  ::flock(file_.number(), LOCK_UN);
}

bool BlockClaim::keep(const CacheKey& key, std::span<const char> bytes) noexcept {
  try {
    const std::vector<char> head = block_head(key, number_, bytes);
    if (!write_both(file_.number(), head, bytes)) return false;
    const std::string path = block_path(key, number_);
    if (!is_named(root_.number(), part_, inode_)) return true;
    is_kept_ = ::renameat(root_.number(), part_.c_str(), root_.number(), path.c_str()) == 0;
    return is_kept_;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace torch_distinput
