// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/block_claim.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file_bytes.h"
#include "io/file_lock.h"

namespace torch_distinput {
namespace {

BlockClaim::State state_without_file(const CacheRoot& root, int code) {
  if (root.is_new_of_others(code)) return BlockClaim::State::kBusy;
  switch (code) {
    case EWOULDBLOCK:
      return BlockClaim::State::kBusy;
    case EEXIST:
    case EISDIR:
    case ELOOP:
      return BlockClaim::State::kThere;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return BlockClaim::State::kNoRoom;
    default:
      return BlockClaim::State::kFailed;
  }
}

/// Whether `path` is the name of an open file.
bool is_named(const CacheRoot& root, const std::string& path, int file) {
  struct ::stat named;
  struct ::stat opened;
  return ::fstatat(root.number(), path.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ::fstat(file, &opened) == 0 && named.st_ino == opened.st_ino;
}

/// Locks the place of a block; where there are no locks, that is the callers' business.
bool lock_place(const CacheRoot& root, int file, const ByteRange& place) {
  return !root.is_shared() || try_lock_range(file, place.offset, place.size);
}

}  // namespace

BlockClaim::State BlockClaim::take(const CacheRoot& root, const CacheLimits& limits, const CacheKey& key,
                                   std::uint64_t block, std::optional<BlockClaim>& claim) {
  const std::uint64_t number = file_of(block);
  std::string path = file_path(key, number);
  Descriptor file = open_or_make(root, limits, key, number);
  if (!file.open()) return state_without_file(root, errno);
  if (read_block_head(file.number(), key, block)) return State::kThere;
  const ByteRange place = place_in_file(block, key.size);
  if (!lock_place(root, file.number(), place)) return is_locked_range(errno) ? State::kBusy : State::kFailed;
  // From here on it is given up where it is not returned.
  BlockClaim taken(root, std::move(file), std::move(path), block, place);
  if (!is_named(root, taken.path_, taken.file_.number())) return State::kBusy;
  // Who had the lock before may have written it.
  if (read_block_head(taken.file_.number(), key, block)) {
    taken.is_kept_ = true;
    return State::kThere;
  }
  const std::optional<std::uint64_t> room = take_room(root, limits, taken.file_.number(), place);
  if (!room) return State::kNoRoom;
  taken.has_new_room_ = *room > 0;
  claim.emplace(std::move(taken));
  return State::kMine;
}

void BlockClaim::end() noexcept {
  if (!file_.open()) return;
  if (!is_kept_) give_up();
  unlock_range(file_.number(), 0, 0);
  file_ = Descriptor();
}

/// Removes the file, too, where it has no blocks and nobody else is about to write some.
void BlockClaim::give_up() noexcept {
  if (has_new_room_) give_room(root_, file_.number(), place_);
  if (!root_.is_shared() || !try_lock_range(file_.number(), 0, 0) || has_blocks(file_.number())) return;
  struct ::stat status;
  if (::fstat(file_.number(), &status) == 0) remove_file(root_, path_, status.st_ino);
}

bool BlockClaim::keep(const CacheKey& key, std::span<const char> bytes) noexcept {
  is_kept_ =
      write_at(file_.number(), bytes, place_.offset) && write_block_head(file_.number(), key, block_, bytes);
  return is_kept_;
}

void remove_block(const CacheRoot& root, const CacheKey& key, std::uint64_t block) {
  const std::string path = file_path(key, file_of(block));
  const Descriptor file(::openat(root.number(), path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const ByteRange place = place_in_file(block, key.size);
  if (!file.open() || !is_file_of(file.number(), key, file_of(block)) ||
      !lock_place(root, file.number(), place)) {
    return;
  }
  remove_block_head(file.number(), block);
  unlock_range(file.number(), place.offset, place.size);
}

}  // namespace torch_distinput
