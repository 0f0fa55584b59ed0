// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "sources/arrays/content_check.h"
#include "sources/arrays/row_files.h"

namespace torch_distinput {

/// An array in a file: its rows lie one after the other from byte `offset` on.
struct StoredArray {
  std::string name;  ///< empty where a file has only one
  c10::ScalarType dtype = c10::kFloat;
  Dims shape;  ///< at least one dim
  std::uint64_t offset = 0;
  /// The bytes of an array that the file holds compressed, and which `offset` counts in; else null.
  std::shared_ptr<const char[]> unpacked = {};
  /// The bytes that the file has a checksum of, which nothing has read yet.
  std::optional<CheckedPart> unchecked = {};

  std::int64_t row_bytes() const;
};

/// A file whose arrays have the same number of rows.
struct ArrayFile final : RowFile {
  std::vector<StoredArray> arrays;  ///< sorted by name
  std::unique_ptr<ContentCheck> check;
};

/// A stretch of a file, or of memory, that a format is read from. Reading beyond `size` is a FileError.
class Stretch {
 public:
  /// Bytes [begin, begin + size) of `file`, which must outlive this object.
  Stretch(const File& file, std::uint64_t begin, std::uint64_t size);
  /// The unpacked bytes of a part of `file`.
  Stretch(const File& file, std::span<const char> unpacked);

  std::uint64_t size() const { return size_; }
  /// Where a byte lies in the file, or in the unpacked part.
  std::uint64_t place(std::uint64_t offset) const { return begin_ + offset; }
  std::string read(std::uint64_t offset, std::uint64_t count) const;
  /// Throws the FileError of damage at byte `offset`.
  [[noreturn]] void damaged(std::uint64_t offset, const std::string& problem) const;

 private:
  const File& file_;
  std::uint64_t begin_;
  std::uint64_t size_;
  const char* unpacked_ = nullptr;
};

/// The array of a `.npy` file or member of an `.npz`; `offset` is that of its first row. Throws FileError for
/// an array without rows of plain numbers, in column-major order, in another byte order, or whose shape does
/// not fit the size.
StoredArray read_npy(const Stretch& bytes);
/// The arrays of an `.npz`, a zip archive of `.npy` members; compressed ones are unpacked and checked, of
/// others only the heads are read. No two members may share bytes, so that they never unpack to more than
/// deflate can pack into the file, and to no more than this machine's memory. Throws FileError.
std::vector<StoredArray> read_npz(const File& file, std::uint64_t size, const std::function<void()>& look);
/// The arrays of a `.safetensors` file. Throws FileError for a header that does not fit the file.
std::vector<StoredArray> read_safetensors(const Stretch& bytes);

}  // namespace torch_distinput
