// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/file.h"

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/current_poll.h"
#include "base/hash.h"
#include "base/stage.h"
#include "io/file_error.h"
#include "io/remote_files.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

/// The kernel fetches up to this many bytes in the background while the caller works on earlier ones.
constexpr std::uint64_t kLocalAhead = std::uint64_t{4} << 20;

FileStamp to_stamp(const struct ::stat& status, const std::string& path) {
  if (S_ISDIR(status.st_mode)) throw_system_error(path, "read", EISDIR);
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .mtime = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
          .is_regular = S_ISREG(status.st_mode)};
}

std::string to_version(const struct ::stat& status) {
  std::string text;
  for (const auto number :
       {std::int64_t(status.st_dev), std::int64_t(status.st_ino), std::int64_t(status.st_size),
        std::int64_t{status.st_mtim.tv_sec}, std::int64_t{status.st_mtim.tv_nsec},
        std::int64_t{status.st_ctim.tv_sec}, std::int64_t{status.st_ctim.tv_nsec}}) {
    text += std::to_string(number) + " ";
  }
  return text;
}

int open_file(const std::string& path) {
  int descriptor;
  do {
    // Without O_NONBLOCK, open and read wait for the writer of a pipe, and `poll` could not end that wait.
    // Regular files are read the same either way.
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw_system_error(path, "open", errno);
  return descriptor;
}

FileStamp to_stamp(const ObjectVersion& version) {
  return {.size = version.size, .mtime = static_cast<std::int64_t>(hash_of(version.tag)), .is_regular = true};
}

std::string to_version(const std::string& url, const ObjectVersion& version) {
  return url + " " + version.tag + " " + std::to_string(version.size);
}

/// Waits until a read would return bytes, the end of the file or an error.
void wait_readable(const std::string& path, int descriptor, const Poll& poll) {
  ::pollfd wanted{.fd = descriptor, .events = POLLIN, .revents = 0};
  while (true) {
    const int ready = ::poll(&wanted, 1, static_cast<int>(kPollInterval.count()));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw_system_error(path, "wait for", errno);
    if (poll) poll();
  }
}

/// Repeats a system call until no signal interrupts it. Throws FileError if it fails.
template <class Call>
std::size_t checked(const std::string& path, Call call) {
  ssize_t count;
  do {
    count = call();
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw_system_error(path, "read", errno);
  return static_cast<std::size_t>(count);
}

}  // namespace

void throw_system_error(const std::string& file, const char* action, int code) {
  if (code == ENOENT || code == ENOTDIR) {
    throw FileError(FileError::Kind::kMissing, file, "there is no such file", code);
  }
  throw FileError(FileError::Kind::kSystem, file,
                  std::string("cannot ") + action + " it: " + std::generic_category().message(code), code);
}

FileStamp stamp_of(const std::string& path) {
  if (is_url(path)) return to_stamp(RemoteFiles::of_process().version(path));
  struct ::stat status;
  if (::stat(path.c_str(), &status) != 0) throw_system_error(path, "look at", errno);
  return to_stamp(status, path);
}

std::string version_on_host(const std::string& path) {
  if (is_url(path)) return to_version(path, RemoteFiles::of_process().version(path));
  struct ::stat status;
  if (::stat(path.c_str(), &status) != 0) throw_system_error(path, "look at", errno);
  return to_version(status);
}

bool can_index(const std::string& path) {
  const FileStamp stamp = stamp_of(path);
  if (!stamp.is_regular || stamp.size > 0) return stamp.is_regular;
  char first;
  return File(path).read({&first, 1}, 0) == 0;
}

void will_open(std::span<const std::string> names) { RemoteFiles::of_process().will_open(names); }
void will_read_whole(std::span<const std::string> names) { RemoteFiles::of_process().will_read(names); }

File::File(std::string path) : path_(std::move(path)) {
  if (is_url(path_)) {
    object_ = RemoteFiles::of_process().open(path_);
    return;
  }
  descriptor_ = open_file(path_);
  try {
    stamp();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileStamp File::stamp() const {
  if (object_) return to_stamp(object_->version());
  struct ::stat status;
  if (::fstat(descriptor_, &status) != 0) throw_system_error(path_, "look at", errno);
  return to_stamp(status, path_);
}

std::string File::version() const {
  if (object_) return to_version(path_, object_->version());
  struct ::stat status;
  if (::fstat(descriptor_, &status) != 0) throw_system_error(path_, "look at", errno);
  return to_version(status);
}

std::size_t File::read(std::span<char> into, std::uint64_t offset) const {
  const StageScope reads(Stage::kRead);
  if (object_) return read_object(into, offset);
  std::size_t done = 0;
  while (done < into.size()) {
    const std::size_t count = checked(path_, [&] {
      return ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    });
    if (count == 0) break;
    done += count;
  }
  return done;
}

std::size_t File::read(std::span<const std::span<char>> pieces, std::uint64_t offset) const {
  const StageScope reads(Stage::kRead);
  std::array<::iovec, 16> parts;
  std::size_t wanted = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    parts.at(i) = {pieces[i].data(), pieces[i].size()};
    wanted += pieces[i].size();
  }
  if (object_) {
    will_read(offset, wanted);
    return read_pieces(pieces, offset);
  }
  const std::size_t count = checked(path_, [&] {
    return ::preadv(descriptor_, parts.data(), static_cast<int>(pieces.size()), static_cast<off_t>(offset));
  });
  if (count == wanted || count == 0) return count;
  // A short read, because of a signal or near the end: read piece by piece.
  return read_pieces(pieces, offset);
}

std::size_t File::read_pieces(std::span<const std::span<char>> pieces, std::uint64_t offset) const {
  std::size_t done = 0;
  for (const std::span<char> piece : pieces) {
    const std::size_t some = read(piece, offset + done);
    done += some;
    if (some < piece.size()) break;
  }
  return done;
}

std::size_t File::read_next(std::span<char> into, const Poll& poll) const {
  const StageScope reads(Stage::kRead);
  while (true) {
    // A read of a pipe that no process has opened for writing returns 0, as at the end; poll waits instead.
    wait_readable(path_, descriptor_, poll);
    const ssize_t count = ::read(descriptor_, into.data(), into.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    // EAGAIN: another process that reads the same pipe took the bytes.
    if (errno != EINTR && errno != EAGAIN) throw_system_error(path_, "read", errno);
  }
}

std::size_t File::read_object(std::span<char> into, std::uint64_t offset) const {
  try {
    return object_->read(into, offset, current_poll());
  } catch (const ObjectError& error) {
    if (error.kind() == ObjectError::Kind::kChanged) RemoteFiles::of_process().forget(path_);
    throw_file_error(error);
  }
}

void File::will_read(std::span<const ByteRange> ranges) const noexcept {
  if (!object_) return;
  try {
    object_->will_read(ranges);
  } catch (...) {
    // The read of these bytes tells what is wrong.
  }
}

std::uint64_t File::ahead() const noexcept { return object_ ? kRemoteAhead : kLocalAhead; }

void File::will_read(std::uint64_t offset, std::uint64_t size) const noexcept {
  if (object_) {
    const ByteRange range{offset, size};
    return will_read({&range, 1});
  }
  // The result is ignored: without the advice, reads are only slower.
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

}  // namespace torch_distinput
