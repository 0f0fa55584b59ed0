// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "remote/object_error.h"

namespace torch_distinput {

/// An error about a file. The message names the file and, if the contents are damaged, the byte offset.
class FileError : public std::runtime_error {
 public:
  /// The kinds of errors; each becomes another public exception (sources/records/file_errors.h).
  enum class Kind {
    kMissing,  ///< there is no such file
    kSystem,   ///< a system call failed, or this kind of file is not supported
    kDamaged,  ///< the contents break the rules of the file's format
    kChanged,  ///< the file changed after it was indexed or opened
    kRemote,   ///< an object of a store cannot be read; a RemoteFileError
  };

  /// An error whose message is `file`: `problem`. `code` is the errno of a system call, if one failed.
  FileError(Kind kind, const std::string& file, const std::string& problem, int code = 0)
      : std::runtime_error(file + ": " + problem), kind_(kind), code_(code) {}
  /// An error of kind kDamaged at byte `offset` of `file`.
  FileError(const std::string& file, std::uint64_t offset, const std::string& problem)
      : FileError(Kind::kDamaged, file, "at byte " + std::to_string(offset) + ": " + problem) {}

  /// An error of kind `kind` with the message of `other`.
  FileError(Kind kind, const std::runtime_error& other) : std::runtime_error(other), kind_(kind), code_(0) {}

  /// What kind of error this is.
  Kind kind() const noexcept { return kind_; }
  /// The errno of the failed system call; 0 if none failed.
  int code() const noexcept { return code_; }

 private:
  Kind kind_;
  int code_;
};

/// An object of a store cannot be read. Of kind kMissing where there is none, else kRemote.
class RemoteFileError final : public FileError {
 public:
  explicit RemoteFileError(const ObjectError& error)
      : FileError(error.kind() == ObjectError::Kind::kMissing ? Kind::kMissing : Kind::kRemote, error),
        object_(error) {}

  /// What the store said.
  const ObjectError& object() const noexcept { return object_; }

 private:
  ObjectError object_;
};

/// Throws the FileError for `code`, the errno of a failed system call. `action` is a verb for the message,
/// such as "open" or "read". The kind is kMissing for ENOENT and ENOTDIR, else kSystem.
[[noreturn]] void throw_system_error(const std::string& file, const char* action, int code);

}  // namespace torch_distinput
