// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_walk.h"

#include <memory>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>

#include "io/file_lock.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kPart = ".part";
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

/// Whether a file has the name of a block, or of one that is being written.
bool is_block(std::string_view name) {
  if (name.ends_with(kPart)) name.remove_suffix(kPart.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string> blocks_in(int root, const std::string& folder) {
  std::vector<std::string> names = names_in(root, folder);
  std::erase_if(names, [](const std::string& name) { return !is_block(name); });
  return names;
}

/// Whether a process is about to write the block.
bool is_claimed(int root, const std::string& path) {
  const Descriptor file(::openat(root, path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file.open() && !try_lock(file.number(), LOCK_EX);
}

/// Removes the file of a block unless a process is about to write it. Returns the bytes that it gave back.
std::string below(const std::string& folder, const std::string& name) {
  std::string path = folder;
  path += '/';
  path += name;
  return path;
}

std::uint64_t remove_unclaimed(int root, const std::string& path) {
  struct ::stat status;
  if (path.ends_with(kPart) && is_claimed(root, path)) return 0;
  const bool removed = ::fstatat(root, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       ::unlinkat(root, path.c_str(), 0) == 0;
  return removed ? on_disk(status) : 0;
}

CachedVersion version_in(int root, const std::string& folder) {
  CachedVersion version{.folder = folder};
  struct ::stat status;
  if (::fstatat(root, folder.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
    version.used = status.st_mtim.tv_sec;
  for (const std::string& name : blocks_in(root, folder)) {
    if (::fstatat(root, below(folder, name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
      version.bytes += on_disk(status);
  }
  return version;
}

}  // namespace

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

std::optional<BlockOwner> owner_of(int root, const std::string& folder) {
  for (const std::string& name : blocks_in(root, folder)) {
    const std::string path = below(folder, name);
    const Descriptor file(::openat(root, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (auto owner = file.open() ? block_owner(file.number()) : std::nullopt) return owner;
  }
  return std::nullopt;
}

std::uint64_t remove_left_parts(int root, const std::string& folder) {
  std::uint64_t removed = 0;
  for (const std::string& name : blocks_in(root, folder)) {
    if (name.ends_with(kPart)) removed += remove_unclaimed(root, below(folder, name));
  }
  return removed;
}

std::uint64_t remove_version(int root, const std::string& folder) {
  std::uint64_t removed = 0;
  for (const std::string& name : blocks_in(root, folder))
    removed += remove_unclaimed(root, below(folder, name));
  ::unlinkat(root, folder.c_str(), AT_REMOVEDIR);  // not where a block is being written
  return removed;
}

}  // namespace torch_distinput
