// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "io/file.h"
#include "io/record_format.h"

namespace torch_distinput {

/// A sequential stream of bytes. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Writes up to `into.size()` bytes to `into` and returns how many: 0 only at the end. REQUIRES: `into` is
  /// not empty. Throws FileError.
  virtual std::size_t read(std::span<char> into) = 0;
};

/// The requests for an object of `size` bytes that a ByteSource reads from its first byte to its last one.
std::uint64_t requests_in_order(std::uint64_t size) noexcept;

/// Returns the bytes of `file`, uncompressed, starting at byte `offset` of the uncompressed contents. The
/// source holds the file and reads ahead. Where `offset` cannot be sought to (compressed files, pipes), the
/// bytes before it are read and dropped. Throws FileError (kChanged) if the contents end before `offset`.
/// While a pipe has no bytes, `poll` is called; what it throws ends the wait, and no byte is lost.
std::unique_ptr<ByteSource> open_bytes(FilePtr file, Compression compression, std::uint64_t offset,
                                       Poll poll);

}  // namespace torch_distinput
