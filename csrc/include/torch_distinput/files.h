// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"

/// \file
/// Datasets of the records in files.

namespace torch_distinput {

/// The files to read, in order: a name, names, or a dataset that yields names.
class TDI_API FileNames {
 public:
  FileNames(const char* name);                // NOLINT(google-explicit-constructor)
  FileNames(std::string name);                // NOLINT(google-explicit-constructor)
  FileNames(std::vector<std::string> names);  // NOLINT(google-explicit-constructor)
  FileNames(std::initializer_list<const char*> names);
  FileNames(const Dataset& names);  // NOLINT(google-explicit-constructor)

  const NodePtr& node() const noexcept { return node_; }

 private:
  NodePtr node_;
};

/// How files are read. Compressed files are read one record after the other.
struct FileOptions {
  std::optional<std::string> compression_type = {};  ///< unset or "": none; "GZIP", "ZLIB"
  /// Whether an index of the records is made (or found stored) when it is first needed: one pass over the
  /// files that gives random access, an exact length and a full shuffle. Unset: where that is possible, which
  /// is for uncompressed regular files whose number is known.
  std::optional<bool> index = {};
};

/// The lines of text files, UTF-8 strings without their ends; carriage returns are dropped, as in tf.data.
/// A missing file is a NotFoundError, one that cannot be read a SystemError, text that is not UTF-8 an
/// InvalidArgumentError that names file and byte: when elements are read.
class TDI_API TextLineDataset : public Dataset {
 public:
  explicit TextLineDataset(FileNames files, FileOptions options = {});
};

/// The records of TFRecord files as bytes; every CRC is checked. Errors as above, for damage too.
class TDI_API TFRecordDataset : public Dataset {
 public:
  explicit TFRecordDataset(FileNames files, FileOptions options = {});
};

/// Records of `record_bytes` bytes each, between a header and a footer in each file. Errors as above.
class TDI_API FixedLengthRecordDataset : public Dataset {
 public:
  explicit FixedLengthRecordDataset(FileNames files, std::int64_t record_bytes, std::int64_t header_bytes = 0,
                                    std::int64_t footer_bytes = 0, FileOptions options = {});
};

/// How far indexing has come: of files that have `total` bytes in all, `bytes` are done.
struct IndexingProgress {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t total = 0;
  bool done = false;  ///< the last call
};
/// Calls `function` while files are indexed, once that has taken a second: in the thread that waits for it,
/// about every 50 ms. Empty: no longer. For the whole process; any thread may call.
TDI_API void on_indexing_progress(std::function<void(const IndexingProgress&)> function);

}  // namespace torch_distinput
