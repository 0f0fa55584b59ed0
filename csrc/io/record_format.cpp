// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_format.h"

#include <algorithm>
#include <cstring>

#include "io/crc32c.h"
#include "io/file_error.h"
#include "io/tar_format.h"
#include "io/utf8.h"

namespace torch_distinput {
namespace {

using Found = RecordScan::Found;

template <class Int>
Int load(const char* data) noexcept {
  Int value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

void copy(std::span<const char> from, char* to) noexcept {
  if (!from.empty()) std::memmove(to, from.data(), from.size());
}

RecordScan damaged(std::string problem) { return {Found::kDamaged, 0, std::move(problem)}; }

RecordScan scan_line(std::span<const char> piece, bool whole) {
  if (!piece.empty()) {
    if (const void* end = std::memchr(piece.data(), '\n', piece.size())) {
      return {Found::kRecord, static_cast<std::uint64_t>(static_cast<const char*>(end) - piece.data()) + 1};
    }
  }
  if (!whole) return {Found::kMore, piece.size() + 1};
  // The last line may lack its newline, but counts only if something other than carriage returns is left.
  for (const char character : piece) {
    if (character != '\r') return {Found::kRecord, piece.size()};
  }
  return {Found::kEnd};
}

RecordScan scan_tf_record(std::span<const char> piece, bool whole) {
  if (piece.empty() && whole) return {Found::kEnd};
  if (piece.size() < kTfRecordHead) {
    if (!whole) return {Found::kMore, kTfRecordHead};
    return damaged("the file ends inside the head of a record");
  }
  const auto length = load<std::uint64_t>(piece.data());
  if (mask_crc(crc32c(piece.first(sizeof(length)))) != load<std::uint32_t>(piece.data() + sizeof(length))) {
    return damaged("the CRC of a record's length is wrong");
  }
  const std::uint64_t rest = piece.size() - kTfRecordHead;
  if (length <= rest && rest - length >= kTfRecordFoot) {
    return {Found::kRecord, kTfRecordHead + length + kTfRecordFoot};
  }
  constexpr std::uint64_t kMax = std::uint64_t{1} << 62;
  if (whole || length > kMax) {
    return damaged("a record of " + std::to_string(length) + " bytes does not fit into the rest of the file");
  }
  return {Found::kMore, kTfRecordHead + length + kTfRecordFoot};
}

RecordScan scan_fixed(const RecordFormat& format, std::span<const char> piece, bool whole) {
  const std::uint64_t wanted = format.record_bytes + format.footer_bytes;
  if (piece.size() >= wanted) return {Found::kRecord, format.record_bytes};
  if (!whole) return {Found::kMore, wanted};
  if (piece.size() == format.footer_bytes) return {Found::kEnd};
  return damaged("after the last whole record of " + std::to_string(format.record_bytes) +
                 " bytes the file should have " + std::to_string(format.footer_bytes) +
                 " bytes (`footer_bytes`), but has " + std::to_string(piece.size()));
}

std::uint64_t extract_line(std::span<const char> raw, char* to, const std::string& file,
                           std::uint64_t offset) {
  if (!raw.empty() && raw.back() == '\n') raw = raw.first(raw.size() - 1);
  if (const std::size_t valid = utf8_prefix(raw); valid < raw.size()) {
    throw FileError(file, offset + valid, "the text is not UTF-8");
  }
  std::uint64_t size = 0;
  while (!raw.empty()) {
    const void* found = std::memchr(raw.data(), '\r', raw.size());
    const std::size_t run = found == nullptr
                                ? raw.size()
                                : static_cast<std::size_t>(static_cast<const char*>(found) - raw.data());
    copy(raw.first(run), to + size);
    size += run;
    raw = raw.subspan(found == nullptr ? run : run + 1);
  }
  return size;
}

}  // namespace

RecordScan scan_record(const RecordFormat& format, std::span<const char> piece, bool whole) {
  switch (format.kind) {
    case RecordKind::kTextLines:
      return scan_line(piece, whole);
    case RecordKind::kTfRecords:
      return scan_tf_record(piece, whole);
    case RecordKind::kTarGroups:
      return scan_tar_group(piece, whole);
    case RecordKind::kFixedRecords:
      break;
  }
  return scan_fixed(format, piece, whole);
}

std::uint64_t most_contents(const RecordFormat& format, std::uint64_t bytes) noexcept {
  return format.kind == RecordKind::kTfRecords ? bytes - kTfRecordHead - kTfRecordFoot : bytes;
}

std::uint64_t record_bytes(const RecordFormat& format, std::span<const char> raw) noexcept {
  if (format.kind == RecordKind::kTextLines && !raw.empty() && raw.back() == '\n') return raw.size() - 1;
  return most_contents(format, raw.size());
}

std::uint64_t least_bytes(const RecordFormat& format, std::uint64_t wanted) noexcept {
  std::uint64_t framing = 0;
  if (format.kind == RecordKind::kTextLines) framing = 1;  // the byte that is wanted may be its end
  if (format.kind == RecordKind::kTfRecords) framing = kTfRecordHead + kTfRecordFoot;
  if (format.kind == RecordKind::kTarGroups) framing = kTarMostHeads;  // those of the next group
  return wanted - std::min(wanted, framing);
}

std::string too_large(const RecordFormat& format, std::uint64_t most) {
  std::string what = "a record has";
  if (format.kind == RecordKind::kTextLines) what = "a line has";
  if (format.kind == RecordKind::kTarGroups) what = "the members of one key have";
  return what + " more than `max_record_bytes`=" + std::to_string(most) + " bytes";
}

std::uint64_t extract_contents(const RecordFormat& format, std::span<const char> raw, char* to,
                               const std::string& file, std::uint64_t offset) {
  if (format.kind == RecordKind::kTextLines) return extract_line(raw, to, file, offset);
  if (format.kind == RecordKind::kTarGroups) return extract_tar_group(raw, to, file, offset);
  if (format.kind == RecordKind::kFixedRecords) {
    copy(raw, to);
    return raw.size();
  }
  const auto data = raw.subspan(kTfRecordHead, raw.size() - kTfRecordHead - kTfRecordFoot);
  check_tf_record(raw.first(kTfRecordHead), data, raw.last(kTfRecordFoot), file, offset);
  copy(data, to);
  return data.size();
}

bool is_plain_text(const RecordFormat& format, std::span<const char> raw) noexcept {
  return format.kind == RecordKind::kTextLines && !raw.empty() &&
         std::memchr(raw.data(), '\r', raw.size()) == nullptr && utf8_prefix(raw) == raw.size();
}

void check_tf_record(std::span<const char> head, std::span<const char> data, std::span<const char> foot,
                     const std::string& file, std::uint64_t offset) {
  const auto length = load<std::uint64_t>(head.data());
  const auto length_crc = load<std::uint32_t>(head.data() + sizeof(length));
  if (length != data.size() || mask_crc(crc32c(head.first(sizeof(length)))) != length_crc) {
    throw FileError(file, offset, "the length of a record is damaged");
  }
  if (mask_crc(crc32c(data)) != load<std::uint32_t>(foot.data())) {
    throw FileError(file, offset, "the CRC of a record's data is wrong");
  }
}

}  // namespace torch_distinput
