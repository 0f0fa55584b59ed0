// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "io/file.h"
#include "io/record_format.h"

namespace torch_distinput {

/// Reads the records of one file in order. One thread at a time.
class RecordReader {
 public:
  /// Starts at byte `offset` of the uncompressed contents: 0, or the `offset()` of another reader. Throws
  /// FileError if the contents end before it. `poll` is called while a pipe has no bytes; what it throws ends
  /// the wait, and no byte is lost.
  RecordReader(FilePtr file, const RecordFormat& format, Compression compression, std::uint64_t offset = 0,
               Poll poll = {});

  /// Returns the contents of the next record, valid until the next call; nullopt at the end. Throws FileError
  /// for a damaged record. If only its contents are damaged, the next call returns the record after it; if
  /// its framing is, the next call returns nullopt.
  std::optional<std::span<const char>> next();

  /// The byte at which the next record begins, in the uncompressed contents.
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  bool fill(std::uint64_t wanted);
  void skip_header();
  std::span<char> piece() noexcept { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void advance(std::uint64_t bytes) noexcept;

  std::string path_;
  RecordFormat format_;
  std::unique_ptr<ByteSource> source_;
  std::uint64_t offset_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  ///< the bytes not used yet are [begin_, end_) of the buffer
  std::size_t end_ = 0;
  bool source_ended_ = false;  ///< the source has no further bytes
  bool ended_ = false;         ///< there are no further records
};

}  // namespace torch_distinput
