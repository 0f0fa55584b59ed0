// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

class RecordWriter;

/// Returns the serialized tf.train.Example of `values`, a flat dict: integers and bools become an Int64List,
/// other real numbers a FloatList (of float32), strings a BytesList; tensors of any shape are flattened, and
/// a leaf without items is stored without a list. Throws c10::ValueError for another structure or an integer
/// of more than 63 bits, and c10::TypeError for a leaf of another kind. Safe from any thread.
TDI_API std::string example(const Element& values);

/// Writes a TFRecord file. One thread at a time.
class TDI_API TFRecordWriter {
 public:
  /// Makes or empties the file `path`. `compression`: unset or "": none; "GZIP", "ZLIB". Throws
  /// c10::ValueError for another one, and NotFoundError or SystemError if the file cannot be written.
  explicit TFRecordWriter(const std::string& path, const std::optional<std::string>& compression = {});
  /// Closes the file. An error is lost, so call `close` first.
  ~TFRecordWriter();
  TFRecordWriter(TFRecordWriter&&) noexcept;
  TFRecordWriter& operator=(TFRecordWriter&&) noexcept;

  /// Appends a record. Throws SystemError if the system refuses, and FailedPreconditionError after `close`.
  void write(std::string_view record);
  /// Appends the record `example(values)`.
  void write_example(const Element& values) { write(example(values)); }
  /// Writes what is buffered and closes the file; a second call does nothing. Throws SystemError.
  void close();

 private:
  std::unique_ptr<RecordWriter> writer_;
};

}  // namespace torch_distinput
