// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_reader.h"

#include <cstring>
#include <utility>

#include "io/file_error.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kRecordReaderPiece = std::size_t{256} << 10;

}  // namespace

RecordReader::RecordReader(FilePtr file, const RecordFormat& format, Compression compression,
                           std::uint64_t offset, Poll poll)
    : path_(file->path()),
      format_(format),
      source_(open_bytes(std::move(file), compression, offset, std::move(poll))),
      offset_(offset),
      buffer_(kRecordReaderPiece) {}

std::optional<std::span<const char>> RecordReader::next() {
  if (!ended_ && offset_ == 0 && format_.header_bytes > 0) skip_header();
  while (!ended_) {
    const RecordScan scan = scan_record(format_, piece(), source_ended_);
    switch (scan.found) {
      case RecordScan::Found::kRecord: {
        const std::span<char> raw = piece().first(static_cast<std::size_t>(scan.bytes));
        const std::uint64_t at = offset_;
        advance(scan.bytes);
        const std::uint64_t size = extract_contents(format_, raw, raw.data(), path_, at);
        return raw.first(static_cast<std::size_t>(size));
      }
      case RecordScan::Found::kMore:
        fill(scan.bytes);
        break;
      case RecordScan::Found::kEnd:
        ended_ = true;
        break;
      case RecordScan::Found::kDamaged:
        ended_ = true;
        throw FileError(path_, offset_, scan.problem + "; the rest of the file cannot be read");
    }
  }
  return std::nullopt;
}

void RecordReader::skip_header() {
  while (piece().size() < format_.header_bytes) {
    if (fill(format_.header_bytes)) continue;
    ended_ = true;
    throw FileError(path_, piece().size(),
                    "the file ends inside its header of " + std::to_string(format_.header_bytes) + " bytes");
  }
  advance(format_.header_bytes);
}

bool RecordReader::fill(std::uint64_t wanted) {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  // The buffer at most doubles at a time: a damaged length must not lead to a large allocation before that
  // many bytes have really come.
  if (wanted > buffer_.size()) buffer_.resize(2 * buffer_.size());
  std::size_t count = 0;
  try {
    count = source_->read(std::span(buffer_).subspan(end_));
  } catch (const FileError&) {
    ended_ = true;
    throw;
  }
  end_ += count;
  if (count == 0) source_ended_ = true;
  return count > 0;
}

void RecordReader::advance(std::uint64_t bytes) noexcept {
  begin_ += static_cast<std::size_t>(bytes);
  offset_ += bytes;
}

}  // namespace torch_distinput
