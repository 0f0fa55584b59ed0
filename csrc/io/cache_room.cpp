// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_room.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/cache_walk.h"
#include "io/crc32c.h"
#include "io/file_bytes.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kUnused = std::int64_t{24} * 3600;  // seconds
constexpr std::int64_t kBetweenSweeps = 60;                // seconds
constexpr std::uint64_t kUsageMagic = 0x3145474153554454;

/// What the file `usage` holds.
struct Usage {
  std::uint64_t magic = kUsageMagic;
  std::uint64_t bytes = 0;
  std::int64_t swept = 0;  ///< when room was made last, in seconds since 1970
  std::uint64_t check = 0;
};

std::uint64_t check_of(const Usage& usage) {
  return crc32c(bytes_of_object(usage).first(offsetof(Usage, check)));
}

/// The count of a cache, while no other thread or process changes it.
class LockedUsage {
 public:
  explicit LockedUsage(const CacheRoot& root)
      : root_(root), lock_(root.mutex()), file_(root.open_file("usage")) {
    locked_ = file_.open() && root.lock_usage(file_.number());
    why_not_ = file_.open() ? EWOULDBLOCK : errno;
    if (!locked_) return;
    const bool is_right = read_at(file_.number(), bytes_of_object(now_), 0) && now_.magic == kUsageMagic &&
                          now_.check == check_of(now_);
    if (!is_right) now_ = {.bytes = bytes_of_all(walk_cache(root.number()))};
  }

  /// Where it is false, another process was stopped while it held the lock, or the folder is gone.
  bool locked() const noexcept { return locked_; }
  /// errno of that.
  int why_not() const noexcept { return why_not_; }
  Usage& now() noexcept { return now_; }
  /// Writes what `now` has become.
  void save() noexcept {
    now_.check = check_of(now_);
    write_at(file_.number(), bytes_of_object(now_), 0);
  }
  /// Counts what is there.
  std::vector<CachedVersion> recount() {
    std::vector<CachedVersion> versions = walk_cache(root_.number());
    now_.bytes = bytes_of_all(versions);
    return versions;
  }
  void give(std::uint64_t bytes) noexcept { now_.bytes -= std::min(now_.bytes, bytes); }
  /// Counts what is about to be taken: a process that is killed then has counted too much, not too little.
  void take(std::uint64_t bytes) noexcept {
    now_.bytes += bytes;
    save();
  }

 private:
  static std::uint64_t bytes_of_all(const std::vector<CachedVersion>& versions) {
    std::uint64_t bytes = 0;
    for (const CachedVersion& version : versions) bytes += version.bytes;
    return bytes;
  }

  const CacheRoot& root_;
  std::unique_lock<std::mutex> lock_;
  Descriptor file_;
  bool locked_ = false;
  int why_not_ = 0;
  Usage now_;
};

/// Whether `bytes` more than `used` are within the limits.
bool fits(const CacheRoot& root, const CacheLimits& limits, std::uint64_t used, std::uint64_t bytes) {
  if (used > limits.max_bytes || bytes > limits.max_bytes - used) return false;
  struct ::statvfs system;
  if (::fstatvfs(root.number(), &system) != 0) return false;
  const std::uint64_t free = std::uint64_t{system.f_bavail} * system.f_frsize;
  const std::uint64_t all = std::uint64_t{system.f_blocks} * system.f_frsize;
  return free >= bytes && free - bytes >= limits.least_free.value_or(all / 20);
}

/// `fallocate` of a file that keeps its size.
bool change_room(int file, int mode, const ByteRange& range) {
  int result;
  do {
    result = ::fallocate(file, mode | FALLOC_FL_KEEP_SIZE, static_cast<::off_t>(range.offset),
                         static_cast<::off_t>(range.size));
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

std::uint64_t room_of(int file) {
  struct ::stat status;
  return ::fstat(file, &status) == 0 ? on_disk(status) : 0;
}

/// Opens a file that is there and right.
Descriptor open_right(const CacheRoot& root, const CacheKey& key, std::uint64_t number) {
  const std::string path = file_path(key, number);
  Descriptor file(::openat(root.number(), path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct ::stat status;
  const bool is_right = file.open() && ::fstat(file.number(), &status) == 0 && root.trusts(status) &&
                        is_file_of(file.number(), key, number);
  return is_right ? std::move(file) : Descriptor();
}

/// Makes a file without blocks, whose folder may be removed meanwhile.
Descriptor make_file(const CacheRoot& root, const CacheKey& key, std::uint64_t number) {
  const std::string path = file_path(key, number);
  Descriptor file;
  for (int tries = 0; tries < 8 && !file.open(); ++tries) {
    file = root.open_file(path, O_EXCL);
    if (file.open() || errno != ENOENT) break;
    root.make_folder(key.folder.substr(0, 2));
    root.make_folder(key.folder);
  }
  if (!file.open()) return file;
  const std::array<char, kFileHead> head = file_head(key, number);
  // With room of its own: the system counts what it has not placed yet in other ways.
  if ((change_room(file.number(), 0, {0, kFileHead}) || errno == EOPNOTSUPP) &&
      write_at(file.number(), head, 0) &&
      ::ftruncate(file.number(), static_cast<::off_t>(file_bytes(key, number))) == 0) {
    return file;
  }
  const int why = errno;
  ::unlinkat(root.number(), path.c_str(), 0);
  file = Descriptor();
  errno = why;
  return file;
}

bool used_before(const CachedVersion& a, const CachedVersion& b) { return a.used < b.used; }

/// Those that others make useless or nobody has used for long, first those that are least likely to be
/// wanted.
std::vector<CachedVersion> unwanted(std::vector<CachedVersion> versions, std::int64_t now) {
  std::sort(versions.begin(), versions.end(), used_before);
  std::unordered_map<std::string_view, std::int64_t> latest;  // by URL
  for (const CachedVersion& version : versions) latest[url_part(version.folder)] = version.used;
  std::vector<CachedVersion> replaced;
  std::vector<CachedVersion> unused;
  for (const CachedVersion& version : versions) {
    if (version.used < latest.at(url_part(version.folder))) {
      replaced.push_back(version);
    } else if (now - version.used > kUnused) {
      unused.push_back(version);
    }
  }
  replaced.insert(replaced.end(), unused.begin(), unused.end());
  return replaced;
}

}  // namespace

Descriptor open_or_make(const CacheRoot& root, const CacheLimits& limits, const CacheKey& key,
                        std::uint64_t number) {
  Descriptor file = open_right(root, key, number);
  if (file.open()) return file;
  // With the lock, nobody else is about to make it: one that is not right was damaged, or is of a process
  // that was killed.
  LockedUsage usage(root);
  file = open_right(root, key, number);
  if (file.open()) return file;
  if (!usage.locked()) {
    errno = usage.why_not();
    return file;
  }
  const std::string path = file_path(key, number);
  struct ::stat status;
  if (::fstatat(root.number(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      ::unlinkat(root.number(), path.c_str(), 0) == 0) {
    usage.give(on_disk(status));
  }
  if (!fits(root, limits, usage.now().bytes, kFileHead)) {
    errno = ENOSPC;
    return file;
  }
  usage.take(kFileHead);
  file = make_file(root, key, number);
  const int why = errno;
  if (!file.open()) usage.give(kFileHead);
  usage.save();
  errno = why;
  return file;
}

std::optional<std::uint64_t> take_room(const CacheRoot& root, const CacheLimits& limits, int file,
                                       const ByteRange& range) {
  LockedUsage usage(root);
  if (!usage.locked() || !fits(root, limits, usage.now().bytes, on_disk(range.size))) return std::nullopt;
  usage.take(on_disk(range.size));
  const std::uint64_t before = room_of(file);
  const bool is_promised = change_room(file, 0, range);
  if (!is_promised && errno == EOPNOTSUPP) return 0;
  const std::uint64_t after = room_of(file);
  const std::uint64_t more = after - std::min(after, before);
  usage.give(on_disk(range.size) - std::min(on_disk(range.size), more));
  usage.save();
  return is_promised ? std::optional(more) : std::nullopt;
}

void give_room(const CacheRoot& root, int file, const ByteRange& range) {
  LockedUsage usage(root);
  const std::uint64_t before = room_of(file);
  if (!change_room(file, FALLOC_FL_PUNCH_HOLE, range) || !usage.locked()) return;
  usage.give(before - std::min(before, room_of(file)));
  usage.save();
}

void remove_file(const CacheRoot& root, const std::string& path, ::ino_t inode) {
  LockedUsage usage(root);
  struct ::stat status;
  if (::fstatat(root.number(), path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (inode != 0 && status.st_ino != inode) return;
  if (::unlinkat(root.number(), path.c_str(), 0) != 0 || !usage.locked()) return;
  usage.give(on_disk(status));
  usage.save();
}

std::uint64_t used_room(const CacheRoot& root) { return LockedUsage(root).now().bytes; }

void make_room(const CacheRoot& root, const CacheLimits& limits, std::uint64_t bytes) {
  LockedUsage usage(root);
  const std::int64_t now = std::time(nullptr);
  if (!usage.locked() || (usage.now().swept <= now && now - usage.now().swept < kBetweenSweeps)) return;
  usage.now().swept = now;
  const std::vector<CachedVersion> versions = usage.recount();
  for (const CachedVersion& version : versions) usage.give(remove_left(root.number(), version.folder));
  for (const CachedVersion& version : unwanted(versions, now)) {
    if (fits(root, limits, usage.now().bytes, bytes)) break;
    usage.give(remove_version(root.number(), version.folder));
  }
  usage.save();
}

std::uint64_t trim_room(const CacheRoot& root, std::uint64_t most) {
  LockedUsage usage(root);
  if (!usage.locked()) return usage.now().bytes;
  std::vector<CachedVersion> versions = usage.recount();
  std::sort(versions.begin(), versions.end(), used_before);
  for (const CachedVersion& version : versions) usage.give(remove_left(root.number(), version.folder));
  for (const CachedVersion& version : versions) {
    if (usage.now().bytes <= most) break;
    usage.give(remove_version(root.number(), version.folder));
  }
  usage.save();
  return usage.now().bytes;
}

}  // namespace torch_distinput
