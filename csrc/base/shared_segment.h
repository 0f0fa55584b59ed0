// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Anonymous memory that processes share: a memfd without a name in the file system, so that nothing is left
/// when all of them are killed, and no limit of /dev/shm applies. Its size is sealed. A page costs memory
/// from the first write on.
class TDI_API SharedSegment {
 public:
  /// Creates memory of `bytes`, all zero. Throws std::system_error where the system has none.
  explicit SharedSegment(std::uint64_t bytes);
  /// Maps the memory behind `fd`, the descriptor of another process's segment, which this object now owns.
  /// Throws std::system_error where it cannot be mapped.
  static SharedSegment attach(int fd) { return SharedSegment(Descriptor{fd}); }
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  char* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  /// For processes that do not inherit the mapping; -1 once it is closed.
  int fd() const noexcept { return fd_; }
  /// Closes the descriptor; the mapping stays.
  void close_fd() noexcept;
  /// Gives the pages that lie wholly in [begin, end) back to the system; they read as zeros.
  void discard(std::uint64_t begin, std::uint64_t end) const noexcept;

 private:
  struct Descriptor {
    int fd;
  };
  explicit SharedSegment(Descriptor descriptor);
  void map();

  int fd_ = -1;
  std::uint64_t size_ = 0;
  char* data_ = nullptr;
};

}  // namespace torch_distinput
