// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/indexing_progress.h"

/// \file
/// Datasets of the records in files.

namespace torch_distinput {

/// The files to read, in order: a name, names, or a dataset that yields names. A name that is a URL may have
/// braces (`expand_braces`), and the wildcards of `list_files`, which stand for the objects that match,
/// sorted: they are listed now. Throws InvalidArgumentError for a name that no file can have, NotFoundError
/// where no object matches, and RemoteError where a store cannot be listed.
class TDI_API FileNames {
 public:
  FileNames(const char* name);                       // NOLINT(google-explicit-constructor)
  FileNames(std::string name);                       // NOLINT(google-explicit-constructor)
  FileNames(const std::vector<std::string>& names);  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<std::string> Name>
  FileNames(std::initializer_list<Name> names)
      : FileNames(std::vector<std::string>(names.begin(), names.end())) {}
  FileNames(const Dataset& names);  // NOLINT(google-explicit-constructor)

  /// The node that yields the names.
  NodePtr node() const noexcept { return node_; }

 private:
  NodePtr node_;
};

/// How files are read. Compressed files have no random access.
struct FileOptions {
  std::optional<std::string> compression_type = {};  ///< unset or "": none; "GZIP", "ZLIB"
  /// Whether an index of the records is made (or a stored one is used) when it is first needed. It takes one
  /// pass over the files and gives random access, an exact length and a full shuffle. Unset: wherever that is
  /// possible, which is for uncompressed regular files whose number is known.
  std::optional<bool> index = {};
  /// A record (a line; the data of a TFRecord; the members of one key of an archive, with their heads) may
  /// have so many bytes; a larger one is an InvalidArgumentError that takes no memory for the rest of it, and
  /// is skipped alone where the options allow that (but of a compressed archive, with what comes after it).
  /// Unset: 2^28 in compressed files and in pipes, whose size does not bound their records; in others any
  /// number.
  std::optional<std::int64_t> max_record_bytes = {};
};

/// The lines of text files as UTF-8 strings without line ends; carriage returns are dropped, as in tf.data.
/// Reading throws NotFoundError for a missing file, SystemError for one that cannot be read, and
/// InvalidArgumentError naming file and byte for text that is not UTF-8.
class TDI_API TextLineDataset : public Dataset {
 public:
  /// Throws c10::ValueError for options out of range.
  explicit TextLineDataset(FileNames files, FileOptions options = {});
  template <std::convertible_to<std::string> Name>
  explicit TextLineDataset(std::initializer_list<Name> files, FileOptions options = {})
      : TextLineDataset(FileNames(files), std::move(options)) {}
};

/// The records of TFRecord files as bytes; every CRC is checked. Errors as for TextLineDataset, with
/// InvalidArgumentError for a damaged record.
class TDI_API TFRecordDataset : public Dataset {
 public:
  explicit TFRecordDataset(FileNames files, FileOptions options = {});
  template <std::convertible_to<std::string> Name>
  explicit TFRecordDataset(std::initializer_list<Name> files, FileOptions options = {})
      : TFRecordDataset(FileNames(files), std::move(options)) {}
};

/// Records of `record_bytes` bytes each as bytes, after `header_bytes` and before `footer_bytes` of each
/// file. Throws c10::ValueError for sizes out of range; errors of reading as for TextLineDataset.
class TDI_API FixedLengthRecordDataset : public Dataset {
 public:
  explicit FixedLengthRecordDataset(FileNames files, std::int64_t record_bytes, std::int64_t header_bytes = 0,
                                    std::int64_t footer_bytes = 0, FileOptions options = {});
  template <std::convertible_to<std::string> Name>
  explicit FixedLengthRecordDataset(std::initializer_list<Name> files, std::int64_t record_bytes,
                                    std::int64_t header_bytes = 0, std::int64_t footer_bytes = 0,
                                    FileOptions options = {})
      : FixedLengthRecordDataset(FileNames(files), record_bytes, header_bytes, footer_bytes,
                                 std::move(options)) {}
};

/// Calls `function` while files are indexed, from one second after the beginning and about every 50 ms, in
/// the thread that waits for the index. One function for the whole process; an empty one ends the calls. Safe
/// from any thread.
TDI_API void on_indexing_progress(std::function<void(const IndexingProgress&)> function);

/// What kinds of index there are: of lines of text, TFRecords, and groups of tar archives.
enum class IndexKind { kLines, kRecords, kGroups };

/// Reads the file `name` from begin to end and returns the index of its records as it is stored. Calls
/// `report` with the number of bytes read so far; what that throws ends the work. Errors as for
/// TextLineDataset, when it reads. Safe from any thread.
TDI_API std::string make_index(const std::string& name, IndexKind kind,
                               const std::function<void(std::uint64_t bytes)>& report);
/// How many records the stored `index` has; nullopt unless it is that of the file `name` as it is now, of
/// whose version a store is not asked again for ten minutes. `index` may be anything. Safe from any thread.
TDI_API std::optional<std::int64_t> count_indexed(const std::string& name, IndexKind kind,
                                                  const std::string& index);

}  // namespace torch_distinput
