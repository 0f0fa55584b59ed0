// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/record_scan.h"

namespace torch_distinput {

/// How records follow one another in a file.
enum class RecordKind {
  kTextLines,     ///< lines of UTF-8, each ended by "\\n"
  kTfRecords,     ///< TFRecord: length, CRC of the length, data, CRC of the data
  kFixedRecords,  ///< records of `record_bytes` each, between a header and a footer
  kTarGroups,     ///< members of a tar archive with one key; their contents are as in io/tar_format.h
};

/// How the bytes of a file are compressed.
enum class Compression { kNone, kGzip, kZlib };

/// How a file is divided into records.
struct RecordFormat {
  RecordKind kind = RecordKind::kTextLines;  ///< the other members are for kFixedRecords only
  std::uint64_t record_bytes = 0;            ///< bytes of a record
  std::uint64_t header_bytes = 0;            ///< bytes before the first record
  std::uint64_t footer_bytes = 0;            ///< bytes after the last record

  bool operator==(const RecordFormat&) const = default;
};

/// Bytes of a TFRecord before and after its data.
inline constexpr std::uint64_t kTfRecordHead = 12;
inline constexpr std::uint64_t kTfRecordFoot = 4;

/// Finds the first record of `piece`. `whole` means that the file ends with the piece. Checks the framing,
/// not the contents. `piece` may hold any bytes. For fixed records the header is skipped by the caller. The
/// functions here are safe from any thread.
RecordScan scan_record(const RecordFormat& format, std::span<const char> piece, bool whole);

/// Returns an upper bound of the bytes in the contents of a record that has `bytes` bytes with its framing.
std::uint64_t most_contents(const RecordFormat& format, std::uint64_t bytes) noexcept;

/// Returns how many bytes `raw`, one whole record, counts as for `max_record_bytes`: a line without its end,
/// the data of a TFRecord, members of an archive with their heads.
std::uint64_t record_bytes(const RecordFormat& format, std::span<const char> raw) noexcept;

/// Returns the fewest bytes, as `record_bytes` counts them, of a record that `scan_record` wants `wanted`
/// bytes for.
std::uint64_t least_bytes(const RecordFormat& format, std::uint64_t wanted) noexcept;

/// What is wrong with a record of more than `most` bytes.
std::string too_large(const RecordFormat& format, std::uint64_t most);

/// Writes the contents of `raw`, one whole record, to `to` and returns their size in bytes, at most
/// `most_contents(format, raw.size())`. `to` may be the start of `raw` or lie before it. Lines lose their
/// newline and all carriage returns, as in tf.data. Throws FileError naming `file` and an offset in it,
/// counted from the record's `offset`, if the contents are damaged (a wrong CRC, text that is not UTF-8).
std::uint64_t extract_contents(const RecordFormat& format, std::span<const char> raw, char* to,
                               const std::string& file, std::uint64_t offset);

/// Returns whether `raw`, a run of whole records, is text lines of valid UTF-8 without carriage returns. Then
/// the contents of each line are its bytes without the "\n" at the end, and need no further check.
bool is_plain_text(const RecordFormat& format, std::span<const char> raw) noexcept;

/// Throws FileError unless `head`, `data` and `foot` make one intact TFRecord. `file` and `offset`, where it
/// begins, are for the message. REQUIRES: `head` and `foot` have kTfRecordHead and kTfRecordFoot bytes.
void check_tf_record(std::span<const char> head, std::span<const char> data, std::span<const char> foot,
                     const std::string& file, std::uint64_t offset);

}  // namespace torch_distinput
