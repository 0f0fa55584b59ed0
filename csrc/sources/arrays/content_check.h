// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/file_error.h"

namespace torch_distinput {

/// A part of a file, and the CRC-32 that its bytes must have.
struct CheckedPart {
  std::string name;  ///< for messages
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
};

/// Compares parts of a file with their checksums, once for all rows that are read from them. Safe from any
/// thread, also in a process that was forked meanwhile.
class ContentCheck {
 public:
  explicit ContentCheck(std::vector<CheckedPart> parts);

  /// The first call reads the parts from begin to end; other threads wait for it. Throws FileError at this
  /// and each further call where a part differs, and what the thread's interrupt check throws, after which
  /// the next call begins again.
  void run(const FilePtr& file) const;

 private:
  enum class State : std::uint8_t { kUnknown, kRight, kWrong };

  void compare(const FilePtr& file) const;

  std::vector<CheckedPart> parts_;
  mutable std::atomic<State> state_;
  /// The process of which a thread is comparing. A forked child is another one, and compares itself.
  mutable std::atomic<int> comparing_ = 0;
  mutable std::optional<FileError> error_;  ///< written before `state_`
};

}  // namespace torch_distinput
