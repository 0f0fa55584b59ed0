// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "io/file.h"
#include "io/record_format.h"

namespace torch_distinput {

/// Bytes one after the other. One thread at a time.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Writes bytes to `into`, which is not empty, and returns how many: 0 only at the end. Throws FileError.
  virtual std::size_t read(std::span<char> into) = 0;
};

/// The bytes of `file` from byte `offset` of its uncompressed contents on. Reads ahead of its user. Where
/// bytes are waited for (a pipe), what `poll` throws ends the wait, and nothing is lost.
std::unique_ptr<ByteSource> open_bytes(FilePtr file, Compression compression, std::uint64_t offset,
                                       Poll poll);

}  // namespace torch_distinput
