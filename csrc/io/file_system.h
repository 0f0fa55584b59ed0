// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/file.h"

namespace torch_distinput {

/// Where files lie: on this machine, in object stores, or behind what a user passes. Safe from any thread.
/// Methods throw FileError.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Opens the file without waiting for its contents. Throws FileError if it is missing, a folder or not
  /// readable.
  virtual FilePtr open(const std::string& path) const = 0;
  /// The stamp of the file `path`. Throws FileError if it is missing, a folder or not accessible.
  virtual FileStamp stamp(const std::string& path) const = 0;
  /// Names the file `path` and its version, for processes on this host.
  virtual std::string version(const std::string& path) const = 0;
  /// The files that match `pattern`, in any order: "*" and "?" and "[...]" do not match "/". Throws FileError
  /// of kind kMissing where there are none.
  virtual std::vector<std::string> match(const std::string& pattern) const = 0;
};
using FileSystemPtr = std::shared_ptr<const FileSystem>;

/// The files of this machine.
const FileSystemPtr& local_file_system();

}  // namespace torch_distinput
