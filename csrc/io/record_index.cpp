// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_index.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/file_error.h"
#include "io/tar_format.h"

namespace torch_distinput {
namespace {

using Progress = std::function<void(std::uint64_t)>;

constexpr std::size_t kRecordIndexPiece = std::size_t{512} << 10;
/// The bytes read after a record that reached far beyond its piece: enough for the next head.
constexpr std::size_t kHead = std::size_t{16} << 10;
/// The bytes read after a large member of a tar archive: the heads and contents of small ones that follow it.
constexpr std::size_t kTarHeads = std::size_t{4} << 10;
/// After as many small entries, a tar archive is read in full pieces again.
constexpr int kTarSmallRun = 8;

/// Finds where the records of a file begin.
class Indexer {
 public:
  Indexer(const File& file, const RecordFormat& format, const Progress& progress)
      : file_(file),
        format_(format),
        progress_(progress),
        size_(file.stamp().size),
        piece_(kRecordIndexPiece) {}

  RecordOffsets records() {
    offsets_.add(0);
    if (format_.kind == RecordKind::kTextLines) return lines();
    return format_.kind == RecordKind::kTarGroups ? tar_groups() : tf_records();
  }

 private:
  RecordOffsets lines() {
    std::uint64_t offset = 0;
    while (offset < size_) {
      const std::span<const char> piece = read(offset, kRecordIndexPiece);
      const char* at = piece.data();
      const char* const end = at + piece.size();
      while (const void* found =
                 at == end ? nullptr : std::memchr(at, '\n', static_cast<std::size_t>(end - at))) {
        at = static_cast<const char*>(found) + 1;
        offsets_.add(offset + static_cast<std::uint64_t>(at - piece.data()));
      }
      offset += piece.size();
    }
    if (has_last_line(offsets_[offsets_.size() - 1])) offsets_.add(size_);
    return std::move(offsets_);
  }

  RecordOffsets tf_records() {
    std::uint64_t offset = 0;
    std::size_t want = kRecordIndexPiece;
    while (offset < size_) {
      const std::span<const char> piece = read(offset, want);
      const std::uint64_t used = tf_records_in(piece, offset);
      // After a large record the next one is probably large too, and most of a full piece would go unused.
      want = used > 2 * kRecordIndexPiece ? kHead : kRecordIndexPiece;
      offset += used;
    }
    return std::move(offsets_);
  }

  RecordOffsets tar_groups() {
    std::string key;
    bool begun = false;
    std::uint64_t offset = 0;
    std::span<const char> piece;
    while (true) {
      const TarEntry entry = scan_tar_entry(piece, offset + piece.size() == size_);
      if (entry.found == TarEntry::Found::kMore) {
        // After contents that were not read, the next ones are probably large too: read the heads alone.
        const bool small = since_large_ < kTarSmallRun;
        piece = read(offset, std::max<std::size_t>(static_cast<std::size_t>(entry.bytes),
                                                   small ? kTarHeads : kRecordIndexPiece));
        continue;
      }
      if (entry.found == TarEntry::Found::kEnd) break;
      const std::string member = entry.name.empty() ? "" : "member '" + entry.name + "' ";
      if (entry.found == TarEntry::Found::kDamaged)
        throw FileError(file_.path(), offset, member + entry.problem);
      if (entry.bytes > size_ - offset)
        throw FileError(
            file_.path(), offset,
            member + "of " + std::to_string(entry.size) + " bytes does not fit into the rest of the file");
      std::string_view here;
      std::string suffix;
      if (entry.found == TarEntry::Found::kMember && split_member_name(entry.name, here, suffix)) {
        if (begun && here != key) offsets_.add(offset);
        begun = true;
        key = here;
      }
      offset += entry.bytes;
      since_large_ = entry.bytes > piece.size() ? 0 : since_large_ + 1;
      piece = piece.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(entry.bytes, piece.size())));
    }
    if (begun) offsets_.add(offset);
    return std::move(offsets_);
  }

  std::span<const char> read(std::uint64_t offset, std::size_t most) {
    if (offset >= asked_) {
      file_.will_read(offset, file_.ahead());
      asked_ = offset + file_.ahead() / 2;
    }
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(most, size_ - offset));
    if (piece_.size() < wanted) piece_.resize(wanted);
    const std::size_t count = file_.read(std::span(piece_).first(wanted), offset);
    if (count < wanted) {
      throw FileError(FileError::Kind::kChanged, file_.path(),
                      "the file became shorter while it was indexed");
    }
    progress_(std::max(offset + count, seen_) - seen_);
    seen_ = std::max(offset + count, seen_);
    return std::span(piece_).first(count);
  }

  /// Adds the ends of the records whose heads lie in `piece`, which was read at `offset`. Returns the
  /// distance from `offset` to the first record that was not added.
  std::uint64_t tf_records_in(std::span<const char> piece, std::uint64_t offset) {
    const std::uint64_t left = size_ - offset;
    std::uint64_t used = 0;
    while (used < piece.size()) {
      const auto rest = piece.subspan(static_cast<std::size_t>(used));
      const RecordScan scan = scan_record(format_, rest, piece.size() == left);
      const bool in_file = scan.bytes <= left - used;
      if (scan.found == RecordScan::Found::kMore && rest.size() < kTfRecordHead) break;
      if (scan.found == RecordScan::Found::kDamaged || !in_file) refuse(offset + used, scan);
      used += scan.bytes;
      offsets_.add(offset + used);
    }
    return used;
  }

  [[noreturn]] void refuse(std::uint64_t offset, const RecordScan& scan) const {
    if (scan.found == RecordScan::Found::kDamaged) throw FileError(file_.path(), offset, scan.problem);
    throw FileError(file_.path(), offset,
                    "a record of " + std::to_string(scan.bytes - kTfRecordHead - kTfRecordFoot) +
                        " bytes does not fit into the rest of the file");
  }

  bool has_last_line(std::uint64_t begin) {
    for (std::uint64_t offset = begin; offset < size_; offset += kRecordIndexPiece) {
      const auto piece = read(offset, kRecordIndexPiece);
      if (scan_record(format_, piece, /*whole=*/true).found == RecordScan::Found::kRecord) return true;
    }
    return false;
  }

  const File& file_;
  const RecordFormat& format_;
  const Progress& progress_;
  std::uint64_t size_;
  std::vector<char> piece_;
  RecordOffsets offsets_;
  std::uint64_t asked_ = 0;
  std::uint64_t seen_ = 0;
  int since_large_ =
      kTarSmallRun;  ///< entries of a tar archive since the last one that reached beyond its piece
};

std::int64_t count_fixed(const RecordFormat& format, const FileStamp& stamp) {
  return static_cast<std::int64_t>((stamp.size - format.header_bytes - format.footer_bytes) /
                                   format.record_bytes);
}

void check_fixed(const File& file, const RecordFormat& format, const FileStamp& stamp) {
  const std::uint64_t frame = format.header_bytes + format.footer_bytes;
  if (stamp.size >= frame && (stamp.size - frame) % format.record_bytes == 0) return;
  throw FileError(FileError::Kind::kDamaged, file.path(),
                  "its " + std::to_string(stamp.size) + " bytes are not a header of " +
                      std::to_string(format.header_bytes) + " bytes, whole records of " +
                      std::to_string(format.record_bytes) + " bytes and a footer of " +
                      std::to_string(format.footer_bytes) + " bytes");
}

}  // namespace

RecordIndex::RecordIndex(const RecordFormat& format, const FileStamp& stamp)
    : format_(format), stamp_(stamp), size_(count_fixed(format, stamp)) {}

RecordIndex::RecordIndex(const RecordFormat& format, const FileStamp& stamp, RecordOffsets offsets)
    : format_(format),
      stamp_(stamp),
      size_(static_cast<std::int64_t>(offsets.size()) - 1),
      offsets_(std::move(offsets)) {
  bool fits = size_ >= 0 && offsets_[0] == 0 && offsets_[offsets_.size() - 1] <= stamp.size;
  const std::uint64_t least = least_bytes(format);
  for (std::int64_t i = 0; fits && i < size_; ++i) {
    const std::uint64_t bytes = extent(i).bytes;
    fits = bytes >= least && (format.kind != RecordKind::kTarGroups || bytes % kTarBlock == 0);
  }
  if (!fits)
    throw std::invalid_argument(
        "record index: the offsets are not those of records of this format in a file of this size");
}

RecordIndex::Extent RecordIndex::extent(std::int64_t record) const noexcept {
  const auto number = static_cast<std::uint64_t>(record);
  if (format_.kind == RecordKind::kFixedRecords) {
    return {format_.header_bytes + number * format_.record_bytes, format_.record_bytes};
  }
  const std::uint64_t offset = offsets_[number];
  return {offset, offsets_[number + 1] - offset};
}

std::uint64_t least_bytes(const RecordFormat& format) noexcept {
  if (format.kind == RecordKind::kTfRecords) return kTfRecordHead + kTfRecordFoot;
  return format.kind == RecordKind::kTarGroups ? kTarBlock : 1;
}

bool ends_with_file(const RecordIndex& index, const File& file) {
  const RecordOffsets& offsets = index.offsets();
  const std::uint64_t size = index.stamp().size;
  std::uint64_t end = offsets[offsets.size() - 1];
  std::vector<char> piece(kHead);
  while (true) {
    const std::size_t count = file.read(piece, end);
    const RecordScan scan = scan_record(index.format(), std::span(piece).first(count), end + count >= size);
    if (scan.found != RecordScan::Found::kMore) return scan.found == RecordScan::Found::kEnd;
    // Carriage returns alone are not a line; any other record shows itself in its head.
    const auto is_return = [](char character) { return character == '\r'; };
    if (index.format().kind != RecordKind::kTextLines || count == 0 ||
        !std::all_of(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count), is_return)) {
      return false;
    }
    end += count;
  }
}

RecordIndex build_index(const File& file, const RecordFormat& format, const Progress& progress) {
  const FileStamp stamp = file.stamp();
  if (format.kind == RecordKind::kFixedRecords) {
    check_fixed(file, format, stamp);
    return {format, stamp};
  }
  Indexer indexer(file, format, progress);
  RecordIndex index(format, stamp, indexer.records());
  if (file.stamp() != stamp) {
    throw FileError(FileError::Kind::kChanged, file.path(), "the file changed while it was indexed");
  }
  return index;
}

}  // namespace torch_distinput
