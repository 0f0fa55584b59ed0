// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/polling.h"
#include "remote/http.h"
#include "remote/open_object.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

// A name of a file is a path of this machine, or the URL of an object (remote/url.h), which is read over the
// network: then functions wait for its server, call the thread's `current_poll` meanwhile, and throw
// RemoteFileError.

/// Identifies a version of a file's contents: equal stamps are taken to mean that the file did not change.
struct FileStamp {
  std::uint64_t size = 0;  ///< bytes
  std::int64_t mtime =
      0;  ///< time of the last change, nanoseconds since 1970; of an object: a hash of its tag
  bool is_regular = true;  ///< a regular file, which has random access; false for a pipe or a device

  bool operator==(const FileStamp&) const = default;
};

/// Returns the stamp of the file `path`. Throws FileError if it is missing, a folder or not accessible.
FileStamp stamp_of(const std::string& path);

/// Names the file `path` and its version, for processes on this host: device, inode, size and times of
/// change. Throws FileError as `stamp_of`.
TDI_API std::string version_on_host(const std::string& path);

/// Returns whether the records of the file `path` can be indexed: it is regular, and the size it reports is
/// that of its contents (a file in /proc reports 0 and may hold bytes). Throws FileError as `stamp_of` and
/// File do.
bool can_index(const std::string& path);

/// These files will be opened or looked at soon: servers are asked for all of them side by side. Does nothing
/// for paths.
void will_open(std::span<const std::string> names);
/// These files will be read from their first byte to their last one soon: servers are asked for the bytes of
/// those whose version is known, and for the version of the others. Does not wait. Does nothing for paths.
void will_read_whole(std::span<const std::string> names);

/// An open file, closed by the destructor. All methods are safe from any thread. They throw FileError if the
/// system refuses.
class File {
 public:
  /// Opens the file without waiting, also a pipe that no process has opened for writing. Throws FileError if
  /// it is missing, a folder or not readable.
  explicit File(std::string path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// The path given to the constructor.
  const std::string& path() const noexcept { return path_; }
  /// The stamp of the open file now.
  FileStamp stamp() const;
  /// The `version_on_host` of the open file now.
  std::string version() const;

  /// Fills `into` with the bytes from `offset` on and returns how many were read: fewer than `into.size()`
  /// only at the end of the file. REQUIRES: the file is regular.
  std::size_t read(std::span<char> into, std::uint64_t offset) const;
  /// The same for several pieces of memory, filled in order, with one system call where possible. REQUIRES:
  /// at most 16 pieces.
  std::size_t read(std::span<const std::span<char>> pieces, std::uint64_t offset) const;
  /// Reads the next bytes of a file without random access (a pipe) and returns how many: 0 at the end. Waits
  /// for a writer and for bytes. Calls `poll` meanwhile; what it throws ends the wait, and no byte is lost.
  std::size_t read_next(std::span<char> into, const Poll& poll) const;

  /// Asks the kernel, or the server, to fetch `size` bytes from `offset` on in the background. Does not wait.
  void will_read(std::uint64_t offset, std::uint64_t size) const noexcept;
  /// Asks the server for all of these bytes side by side; does nothing for a file of this machine. Does not
  /// wait.
  void will_read(std::span<const ByteRange> ranges) const noexcept;
  /// Whether it is an object that is read over the network.
  bool is_remote() const noexcept { return object_ != nullptr; }
  /// How many bytes a sequential reader asks for in advance.
  std::uint64_t ahead() const noexcept;

 private:
  std::size_t read_object(std::span<char> into, std::uint64_t offset) const;
  std::size_t read_pieces(std::span<const std::span<char>> pieces, std::uint64_t offset) const;

  std::string path_;
  OpenObjectPtr object_;  ///< null for a file of this machine
  int descriptor_ = -1;
};
/// A file shared by its readers; the last one closes it.
using FilePtr = std::shared_ptr<const File>;

}  // namespace torch_distinput
