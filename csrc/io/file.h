// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/polling.h"

namespace torch_distinput {

/// What tells whether a file is still the one that was looked at.
struct FileStamp {
  std::uint64_t size = 0;  ///< bytes
  std::int64_t mtime = 0;  ///< last change, nanoseconds since 1970
  bool is_regular = true;  ///< not a pipe or a device: has random access

  bool operator==(const FileStamp&) const = default;
};

/// The stamp of the file `path`. Throws FileError where it is missing, a folder or out of reach.
FileStamp stamp_of(const std::string& path);

/// Whether the records of the file `path` can be indexed: it is regular, and its size is that of its contents
/// (a file of /proc says 0, whatever there is to read). Throws FileError as `stamp_of` and File do.
bool can_index(const std::string& path);

/// An open file, read by position: many threads may read at once. Closed when destroyed.
class File {
 public:
  /// Opens it at once, also a pipe to which nobody writes. Throws FileError where it is missing, a folder or
  /// unreadable.
  explicit File(std::string path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const noexcept { return path_; }
  /// The stamp at this moment.
  FileStamp stamp() const;

  /// Reads `into` from byte `offset` on; fewer bytes only at the end of the file. Returns how many.
  std::size_t read(std::span<char> into, std::uint64_t offset) const;
  /// The same into several pieces of memory, one after the other; no more than 16.
  std::size_t read(std::span<const std::span<char>> pieces, std::uint64_t offset) const;
  /// The next bytes of a file without positions (a pipe); 0 at the end. Waits for them, and before the first
  /// ones for somebody who writes. What `poll` throws ends the wait, and nothing is lost.
  std::size_t read_next(std::span<char> into, const Poll& poll) const;

  /// Asks the system to fetch these bytes in the background.
  void will_read(std::uint64_t offset, std::uint64_t size) const noexcept;

 private:
  std::string path_;
  int descriptor_;
};
using FilePtr = std::shared_ptr<const File>;

}  // namespace torch_distinput
