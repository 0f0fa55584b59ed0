// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace torch_distinput {

enum class RecordKind {
  kTextLines,     ///< lines of UTF-8, ended by "\\n"
  kTfRecords,     ///< length, CRC of the length, data, CRC of the data
  kFixedRecords,  ///< `record_bytes` each, between a header and a footer
};

enum class Compression { kNone, kGzip, kZlib };

/// How a file is cut into records.
struct RecordFormat {
  RecordKind kind = RecordKind::kTextLines;
  std::uint64_t record_bytes = 0;  ///< fixed records only, as are the next two
  std::uint64_t header_bytes = 0;
  std::uint64_t footer_bytes = 0;

  bool operator==(const RecordFormat&) const = default;
};

/// Bytes that a TFRecord has before and after its data.
inline constexpr std::uint64_t kTfRecordHead = 12;
inline constexpr std::uint64_t kTfRecordFoot = 4;

/// What lies at the begin of a piece of a file.
struct RecordScan {
  enum class Found {
    kRecord,   ///< a record of `bytes` bytes, its framing included
    kMore,     ///< a record that does not end in this piece: look again with at least `bytes` bytes
    kEnd,      ///< no further record
    kDamaged,  ///< something else; `problem` says what
  };
  Found found;
  std::uint64_t bytes = 0;
  std::string problem = {};
};

/// Finds the first record of `piece`. `whole`: the file ends with the piece. Checks framing, not contents.
/// Any bytes may come.
RecordScan scan_record(const RecordFormat& format, std::span<const char> piece, bool whole);

/// Most bytes that a record's contents can have whose framing included it has `bytes`.
std::uint64_t most_contents(const RecordFormat& format, std::uint64_t bytes) noexcept;

/// Writes the contents of the one record that `raw` is to `to`, which may be `raw` itself or lie before it,
/// and returns how many bytes they are: at most `most_contents(format, raw.size())`. Throws FileError naming
/// `file` and the record's `offset` where the contents are damaged (a wrong CRC, text that is not UTF-8).
/// Lines lose all carriage returns, as in tf.data.
std::uint64_t extract_contents(const RecordFormat& format, std::span<const char> raw, char* to,
                               const std::string& file, std::uint64_t offset);

/// Whether `raw`, whole records one after the other, needs no further look: text that is UTF-8 and holds no
/// carriage return. Then the contents of a line are its bytes but for the "\n" at the end.
bool is_plain_text(const RecordFormat& format, std::span<const char> raw) noexcept;

/// Throws FileError unless `head`, `data` and `foot` are those of one TFRecord, the one at `offset` of
/// `file`.
void check_tf_record(std::span<const char> head, std::span<const char> data, std::span<const char> foot,
                     const std::string& file, std::uint64_t offset);

}  // namespace torch_distinput
