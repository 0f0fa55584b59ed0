// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/polling.h"
#include "io/record_format.h"

struct TdiZStream;

namespace torch_distinput {

/// Writes a TFRecord file, plain or as one gzip member or zlib stream. One thread at a time.
class RecordWriter {
 public:
  /// Makes or empties the file `path`; `poll` is called when a signal comes while that waits, as it does for
  /// the reader of a pipe. Throws FileError if the system refuses, and what `poll` throws.
  RecordWriter(std::string path, Compression compression, const Poll& poll = {});
  /// Closes the file; errors are lost, so call `close` first.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Appends a record. Throws FileError. REQUIRES: the file is open.
  void write(std::span<const char> data);
  /// Writes what is buffered and closes the file, once. Throws FileError; the file is closed then, too.
  void close();
  bool is_open() const noexcept { return descriptor_ >= 0; }
  const std::string& path() const noexcept { return path_; }

 private:
  void append(std::span<const char> bytes);
  /// Compresses what is buffered, and with `last` ends the stream.
  void deflate_buffer(bool last);
  void write_out(std::span<const char> bytes);
  void flush(bool last);

  std::string path_;
  int descriptor_;
  std::vector<char> buffer_;
  std::unique_ptr<TdiZStream> stream_;  ///< null for a plain file
};

}  // namespace torch_distinput
