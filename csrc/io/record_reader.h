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

/// The records of one file, one after the other. One thread at a time.
class RecordReader {
 public:
  /// From byte `offset` of the uncompressed contents on: 0, or an `offset()` of another reader. Throws
  /// FileError. What `poll` throws while bytes of a pipe are waited for ends the wait, and nothing is lost.
  RecordReader(FilePtr file, const RecordFormat& format, Compression compression, std::uint64_t offset = 0,
               Poll poll = {});

  /// The contents of the next record, valid until the next call; nullopt at the end. Throws FileError for a
  /// damaged record; the next call goes on after it where that is possible, else it is the end.
  std::optional<std::span<const char>> next();

  /// Where the next record begins, in the uncompressed contents.
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
  std::size_t begin_ = 0;  ///< of what is left in the buffer
  std::size_t end_ = 0;
  bool source_ended_ = false;
  bool ended_ = false;
};

}  // namespace torch_distinput
