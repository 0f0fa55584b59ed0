// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>
#include <unistd.h>

/// \file
/// Whole reads and writes of a descriptor at a place. Safe from any thread.

namespace torch_distinput {

/// Fills `into` with the bytes from `offset` on. False where there are fewer, or for an error.
inline bool read_at(int file, std::span<char> into, std::uint64_t offset) noexcept {
  while (!into.empty()) {
    const ::ssize_t count = ::pread(file, into.data(), into.size(), static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return true;
}

/// Writes `bytes` from `offset` on. False for an error, which is in errno.
inline bool write_at(int file, std::span<const char> bytes, std::uint64_t offset) noexcept {
  while (!bytes.empty()) {
    const ::ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return true;
}

/// The bytes of an object, for the functions above.
template <class T>
std::span<char> bytes_of_object(T& object) noexcept {
  return {reinterpret_cast<char*>(&object), sizeof(T)};
}
template <class T>
std::span<const char> bytes_of_object(const T& object) noexcept {
  return {reinterpret_cast<const char*>(&object), sizeof(T)};
}

}  // namespace torch_distinput
