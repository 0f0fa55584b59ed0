// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_walk.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>

#include "io/file_lock.h"

namespace torch_distinput {
namespace {

/// A file that has changed within this time is left alone: who reads it may not have seen that yet.
constexpr std::chrono::milliseconds kRecent{100};
constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;

/// The names in the folder `path` below `root`; none where it cannot be read.
std::vector<std::string> names_in(int root, const std::string& path) {
  std::vector<std::string> names;
  const int folder = ::openat(root, path.c_str(), kFolder);
  if (folder < 0) return names;
  const std::unique_ptr<::DIR, int (*)(::DIR*)> listing(::fdopendir(folder), ::closedir);
  if (listing == nullptr) {
    ::close(folder);
    return names;
  }
  while (const ::dirent* const found = ::readdir(listing.get())) names.emplace_back(found->d_name);
  return names;
}

bool is_hex(std::string_view name, std::size_t digits) {
  return name.size() == digits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_number(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string> files_in(int root, const std::string& folder) {
  std::vector<std::string> names = names_in(root, folder);
  std::erase_if(names, [](const std::string& name) { return !is_number(name); });
  return names;
}

std::string below(const std::string& folder, const std::string& name) {
  std::string path = folder;
  path += '/';
  path += name;
  return path;
}

Descriptor open_for_writing(int root, const std::string& path) {
  return Descriptor(::openat(root, path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

bool has_just_changed(const struct ::stat& status) {
  const auto changed =
      std::chrono::seconds(status.st_ctim.tv_sec) + std::chrono::nanoseconds(status.st_ctim.tv_nsec);
  return std::chrono::system_clock::now().time_since_epoch() - changed <= kRecent;
}

/// Whether a process is about to write to an open file.
bool is_claimed(const Descriptor& file) {
  return file.open() && !try_lock_range(file.number(), 0, 0) && is_locked_range(errno);
}

/// Removes a file unless a process is about to write to it. Returns the bytes that it gave back.
std::uint64_t remove_unclaimed(int root, const std::string& path) {
  struct ::stat status;
  const Descriptor file = open_for_writing(root, path);
  if (is_claimed(file)) return 0;
  const bool removed = ::fstatat(root, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       ::unlinkat(root, path.c_str(), 0) == 0;
  return removed ? on_disk(status) : 0;
}

/// Takes the room of blocks away that are not there, and that no process is about to write. Returns whether
/// some are there.
bool remove_left_blocks(int file, const FileOwner& owner) {
  bool has_blocks = false;
  const ByteRange range = file_range(owner.number, owner.key.size);
  for (std::uint64_t offset = range.offset; offset < range.end(); offset += kCacheBlock) {
    const std::uint64_t block = offset / kCacheBlock;
    const ByteRange place = place_in_file(block, owner.key.size);
    if (read_block_head(file, owner.key, block)) {
      has_blocks = true;
    } else if (try_lock_range(file, place.offset, place.size)) {
      ::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<::off_t>(place.offset),
                  static_cast<::off_t>(place.size));
      unlock_range(file, place.offset, place.size);
    }
  }
  return has_blocks;
}

CachedVersion version_in(int root, const std::string& folder) {
  CachedVersion version{.folder = folder};
  struct ::stat status;
  if (::fstatat(root, folder.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
    version.used = status.st_mtim.tv_sec;
  for (const std::string& name : files_in(root, folder)) {
    if (::fstatat(root, below(folder, name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      version.bytes += on_disk(status);
  }
  return version;
}

}  // namespace

std::uint64_t on_disk(const struct ::stat& status) {
  const std::uint64_t all = static_cast<std::uint64_t>(status.st_blocks) * 512;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (all < kFileHead || size <= kFirstPlace) return all;
  const std::uint64_t blocks = all - kFileHead;
  const std::uint64_t last = on_disk((size - kFirstPlace) % kCacheBlock);
  const bool has_last = last > 0 && blocks % kCacheBlock >= last;
  return kFileHead + blocks / kCacheBlock * kCacheBlock + (has_last ? last : 0);
}

std::vector<CachedVersion> walk_cache(int root) {
  std::vector<CachedVersion> found;
  for (const std::string& shelf : names_in(root, ".")) {
    if (!is_hex(shelf, 2)) continue;
    for (const std::string& name : names_in(root, shelf)) {
      if (is_hex(name, 32)) found.push_back(version_in(root, below(shelf, name)));
    }
  }
  return found;
}

std::optional<FileOwner> owner_of(int root, const std::string& folder) {
  for (const std::string& name : files_in(root, folder)) {
    const std::string path = below(folder, name);
    const Descriptor file(::openat(root, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (auto owner = file.open() ? file_owner(file.number()) : std::nullopt) return owner;
  }
  return std::nullopt;
}

std::uint64_t remove_left(int root, const std::string& folder) {
  std::uint64_t removed = 0;
  for (const std::string& name : files_in(root, folder)) {
    const std::string path = below(folder, name);
    const Descriptor file = open_for_writing(root, path);
    struct ::stat before;
    struct ::stat after;
    if (!file.open() || ::fstat(file.number(), &before) != 0) continue;
    const std::optional<FileOwner> owner = file_owner(file.number());
    if (!owner || has_just_changed(before)) continue;
    const bool has_blocks = remove_left_blocks(file.number(), *owner);
    if (::fstat(file.number(), &after) == 0 && after.st_blocks < before.st_blocks)
      removed += on_disk(before) - on_disk(after);
    if (!has_blocks) removed += remove_unclaimed(root, path);
  }
  return removed;
}

std::uint64_t remove_version(int root, const std::string& folder) {
  std::uint64_t removed = 0;
  for (const std::string& name : files_in(root, folder))
    removed += remove_unclaimed(root, below(folder, name));
  ::unlinkat(root, folder.c_str(), AT_REMOVEDIR);  // not where a file is being written
  return removed;
}

}  // namespace torch_distinput
