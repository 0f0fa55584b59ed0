// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "io/file_error.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kRecordReaderPiece = std::size_t{256} << 10;
/// What a piece with a whole record may have besides its contents: the framing, and the heads of the next
/// one.
constexpr std::uint64_t kMaxFraming = std::uint64_t{1} << 20;

std::uint64_t most_of(const File& file, const RecordFormat& format, Compression compression,
                      std::optional<std::uint64_t> given) {
  constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max() / 2;
  if (format.kind == RecordKind::kFixedRecords) return kNoLimit;
  const bool bounded = compression == Compression::kNone && file.stamp().is_regular;
  return given.value_or(bounded ? kNoLimit : kMaxRecordBytes);
}

}  // namespace

RecordReader::RecordReader(FilePtr file, const RecordFormat& format, Compression compression,
                           std::uint64_t offset, Poll poll, std::optional<std::uint64_t> max_record_bytes)
    : path_(file->path()),
      format_(format),
      most_(most_of(*file, format, compression, max_record_bytes)),
      source_(open_bytes(std::move(file), compression, offset, std::move(poll))),
      offset_(offset),
      buffer_(kRecordReaderPiece) {}

std::optional<std::span<const char>> RecordReader::next() {
  if (!ended_ && offset_ == 0 && format_.header_bytes > 0) skip_header();
  if (!ended_ && refused_) pass_over();
  while (!ended_) {
    const RecordScan scan = scan_record(format_, piece(), source_ended_);
    switch (scan.found) {
      case RecordScan::Found::kRecord: {
        const std::span<char> raw = piece().first(static_cast<std::size_t>(scan.bytes));
        if (record_bytes(format_, raw) > most_) refuse_size(scan);
        const std::uint64_t at = offset_;
        advance(scan.bytes);
        const std::uint64_t size = extract_contents(format_, raw, raw.data(), path_, at);
        return raw.first(static_cast<std::size_t>(size));
      }
      case RecordScan::Found::kMore:
        if (least_bytes(format_, scan.bytes) > most_) refuse_size(scan);
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

void RecordReader::refuse_size(const RecordScan& scan) {
  const bool found = scan.found == RecordScan::Found::kRecord;
  std::string problem = too_large(format_, most_);
  if (format_.kind != RecordKind::kTarGroups || found) {
    refused_ = {format_.kind == RecordKind::kTextLines ? 0 : scan.bytes, 0};
  } else {
    ended_ = true;
    problem += "; the rest of the file cannot be read";
  }
  throw FileError(path_, offset_, problem);
}

void RecordReader::pass_over() {
  for (bool passed = false; !passed;) {
    const std::span<char> here = piece();
    std::size_t count = here.size();
    if (refused_->bytes > 0) {
      const std::uint64_t left = refused_->bytes - refused_->dropped;
      passed = left <= count;
      if (passed) count = static_cast<std::size_t>(left);
    } else if (const void* end = here.empty() ? nullptr : std::memchr(here.data(), '\n', here.size())) {
      passed = true;
      count = static_cast<std::size_t>(static_cast<const char*>(end) - here.data()) + 1;
    }
    begin_ += count;
    refused_->dropped += count;
    if (!passed && !fill(1)) break;  // the next scan says what is missing, if anything is
  }
  offset_ += refused_->dropped;
  refused_.reset();
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
  if (wanted > buffer_.size()) {
    const std::uint64_t most = most_ + kMaxFraming;
    buffer_.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(2 * buffer_.size(), std::max(wanted, most))));
  }
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
