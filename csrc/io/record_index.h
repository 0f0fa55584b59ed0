// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "io/file.h"
#include "io/record_format.h"
#include "io/record_offsets.h"

namespace torch_distinput {

/// Where the records of an uncompressed file lie. Immutable once built; any thread may read.
class RecordIndex {
 public:
  /// A record with its framing.
  struct Extent {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  /// Of fixed records, which are arithmetic. REQUIRES: that the file is so long.
  RecordIndex(const RecordFormat& format, const FileStamp& stamp);
  /// `offsets`: the begin of each record and the end of the last one. Throws std::invalid_argument where they
  /// cannot be those of this format in a file of this size.
  RecordIndex(const RecordFormat& format, const FileStamp& stamp, RecordOffsets offsets);

  std::int64_t size() const noexcept { return size_; }
  /// REQUIRES: 0 <= `record` < size().
  Extent extent(std::int64_t record) const noexcept;
  const RecordFormat& format() const noexcept { return format_; }
  /// The file as it was when the index was built.
  const FileStamp& stamp() const noexcept { return stamp_; }
  /// Empty for fixed records.
  const RecordOffsets& offsets() const noexcept { return offsets_; }

 private:
  RecordFormat format_;
  FileStamp stamp_;
  std::int64_t size_;
  RecordOffsets offsets_;
};

/// Reads `file` once from begin to end. Calls `progress` with the number of further bytes seen, now and then;
/// what it throws ends the work. Throws FileError where records are damaged in a way that hides the ones
/// after them, and where the file changes meanwhile.
RecordIndex build_index(const File& file, const RecordFormat& format,
                        const std::function<void(std::uint64_t bytes)>& progress);

}  // namespace torch_distinput
