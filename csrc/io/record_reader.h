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

/// A record of a compressed file may have so many bytes, unless the user says otherwise: a megabyte of gzip
/// unpacks to a gigabyte, and lines and records of honest files are smaller.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{256} << 20;

/// Reads the records of one file in order. One thread at a time.
class RecordReader {
 public:
  /// Starts at byte `offset` of the uncompressed contents: 0, or the `offset()` of another reader. Throws
  /// FileError if the contents end before it. `poll` is called while a pipe has no bytes; what it throws ends
  /// the wait, and no byte is lost. A record (a line, without its end; the data of a TFRecord; a group of
  /// members with their heads) may have `max_record_bytes` bytes; unset: kMaxRecordBytes where the size of
  /// the file does not bound it, which is in compressed files and in pipes. Fixed records have the size that
  /// the user says.
  RecordReader(FilePtr file, const RecordFormat& format, Compression compression, std::uint64_t offset = 0,
               Poll poll = {}, std::optional<std::uint64_t> max_record_bytes = {});

  /// Returns the contents of the next record, valid until the next call; nullopt at the end. Throws FileError
  /// for a damaged record and for one that is too large. If only its contents are damaged, or it is not a
  /// group of members and too large, the next call returns the record after it; else the next call returns
  /// nullopt. Takes memory for the bytes that came, and not for more than a record may have.
  std::optional<std::span<const char>> next();

  /// The byte at which the next record begins, in the uncompressed contents.
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  bool fill(std::uint64_t wanted);
  void skip_header();
  [[noreturn]] void refuse_size(const RecordScan& scan);
  void pass_over();
  std::span<char> piece() noexcept { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void advance(std::uint64_t bytes) noexcept;

  std::string path_;
  RecordFormat format_;
  std::uint64_t most_;  ///< bytes of a record, without its framing
  std::unique_ptr<ByteSource> source_;
  std::uint64_t offset_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  ///< the bytes not used yet are [begin_, end_) of the buffer
  std::size_t end_ = 0;
  bool source_ended_ = false;  ///< the source has no further bytes
  bool ended_ = false;         ///< there are no further records
  /// A record that was refused and whose bytes are dropped: how many it has (0: those of its line), and how
  /// many are gone. It begins at `offset_`, so that an interrupt does not leave the reader inside of it.
  struct Refused {
    std::uint64_t bytes;
    std::uint64_t dropped;
  };
  std::optional<Refused> refused_;
};

}  // namespace torch_distinput
