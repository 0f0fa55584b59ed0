// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace torch_distinput {

/// What is wrong with a file. The message names the file and, for its contents, the byte offset.
class FileError : public std::runtime_error {
 public:
  enum class Kind {
    kMissing,  ///< there is no such file
    kSystem,   ///< the system refuses: `code()` is its errno
    kDamaged,  ///< its contents are not what its format asks for
    kChanged,  ///< it is not the file any more that was indexed or opened
  };

  FileError(Kind kind, const std::string& file, const std::string& problem, int code = 0)
      : std::runtime_error(file + ": " + problem), kind_(kind), code_(code) {}
  FileError(const std::string& file, std::uint64_t offset, const std::string& problem)
      : FileError(Kind::kDamaged, file, "at byte " + std::to_string(offset) + ": " + problem) {}

  Kind kind() const noexcept { return kind_; }
  /// The system's errno; 0 where it did not complain.
  int code() const noexcept { return code_; }

 private:
  Kind kind_;
  int code_;
};

/// Throws the FileError for `code`, an errno that the system gave for `action` ("open", "read").
[[noreturn]] void throw_system_error(const std::string& file, const char* action, int code);

}  // namespace torch_distinput
