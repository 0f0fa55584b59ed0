// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "io/file.h"
#include "io/record_format.h"
#include "io/record_offsets.h"

namespace torch_distinput {

/// Where the records of an uncompressed file lie. Immutable once built, so safe from any thread.
class RecordIndex {
 public:
  /// The bytes of a record in the file, framing included.
  struct Extent {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  /// An index of fixed records, whose offsets are computed. REQUIRES: the file is a header, whole records and
  /// a footer.
  RecordIndex(const RecordFormat& format, const FileStamp& stamp);
  /// An index of lines or TFRecords. `offsets` holds the start of each record and then the end of the last
  /// one. Throws std::invalid_argument if they cannot be those of this format in a file of this size.
  RecordIndex(const RecordFormat& format, const FileStamp& stamp, RecordOffsets offsets);

  /// The number of records.
  std::int64_t size() const noexcept { return size_; }
  /// Returns where record `record` lies. REQUIRES: 0 <= `record` < size().
  Extent extent(std::int64_t record) const noexcept;
  /// The format that the index was built for.
  const RecordFormat& format() const noexcept { return format_; }
  /// The stamp of the file when the index was built.
  const FileStamp& stamp() const noexcept { return stamp_; }
  /// The offsets given to the constructor; empty for fixed records.
  const RecordOffsets& offsets() const noexcept { return offsets_; }

 private:
  RecordFormat format_;
  FileStamp stamp_;
  std::int64_t size_;
  RecordOffsets offsets_;
};

/// The fewest bytes that a record of this format has in a file.
std::uint64_t least_bytes(const RecordFormat& format) noexcept;

/// Returns whether no record follows the last one of `index` in `file`. Throws FileError if it cannot be
/// read.
bool ends_with_file(const RecordIndex& index, const File& file);

/// Builds the index of `file` by reading it once from begin to end (fixed records need no reading). Calls
/// `progress` with the bytes read since the last call; what it throws ends the work. Throws FileError if the
/// framing of a record is damaged, so that later records cannot be found, and if the file changes meanwhile.
RecordIndex build_index(const File& file, const RecordFormat& format,
                        const std::function<void(std::uint64_t bytes)>& progress);

}  // namespace torch_distinput
