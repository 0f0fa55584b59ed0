// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/file_handles.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

class BufferPool;

/// What is known of one file with random access to its rows: a format derives its own from it. Immutable.
struct RowFile {
  virtual ~RowFile() = default;

  std::string path;       ///< the file that the user named
  FileStamp stamp;        ///< of that file
  std::string data_path;  ///< the file that holds the rows: the same one, or its neighbour
  FileStamp data_stamp;   ///< of that file
  std::int64_t rows = 0;
  SpecPtr spec;  ///< the type of a row
};
using RowFilePtr = std::shared_ptr<const RowFile>;

/// A format of files with random access to rows. Methods throw FileError for a file that they cannot use.
/// Safe from any thread.
class RowFormat {
 public:
  virtual ~RowFormat() = default;
  /// The dataset's name as the user calls it.
  virtual std::string name() const = 0;
  /// The arguments that decide which rows there are, as in the call.
  virtual std::string arguments() const = 0;
  /// The type of rows where no file is needed to know it, else null.
  virtual SpecPtr spec() const { return nullptr; }
  /// Reads what is needed to find rows, and checks it against the size of the file. Reads no rows. `look` is
  /// called now and then where that takes long; what it throws ends the call.
  virtual RowFilePtr open(const std::string& path, const std::function<void()>& look) const = 0;
  /// Random access to the rows of `files`, which `open` returned and which have rows of one type. Batches lie
  /// in memory of `pool`.
  virtual PlanPtr plan(std::vector<RowFilePtr> files, std::shared_ptr<BufferPool> pool) const = 0;
  /// Compares the contents of `file` with the checksums in it, if it has any, once. A
  /// plan does this before it reads the first row of a file.
  virtual void check(const RowFile& /*file*/) const {}
};

/// Files and where their rows stand among all rows; opens the files when they are read. Safe from any thread.
class RowFiles {
 public:
  explicit RowFiles(std::vector<RowFilePtr> files);

  /// Rows of all files.
  std::int64_t size() const noexcept { return begins_.back(); }
  /// A row of a file.
  struct Place {
    std::size_t file;
    std::int64_t row;
  };
  Place place_of(std::int64_t position) const noexcept;
  /// As `Plan::source_row`.
  SourceRow source_row(std::int64_t position) const;
  const RowFile& operator[](std::size_t file) const { return *files_[file]; }
  const RowFile& front() const { return *files_.front(); }

  /// Whether a file is read over the network.
  bool is_remote() const noexcept { return is_remote_; }
  /// Returns the open file with the rows. Throws FileError if it changed after `RowFormat::open`.
  FilePtr open(std::size_t file) const;

 private:
  std::vector<RowFilePtr> files_;
  std::vector<std::int64_t> begins_;  ///< rows before each file, and rows of all files
  std::unique_ptr<FileHandles> handles_;
  bool is_remote_;
};

/// The sum of `before`, the rows of the files before it, and of the rows of `file`. Throws FileError where it
/// is beyond 2^63 - 1.
std::int64_t rows_with(std::int64_t before, const RowFile& file);

/// Fills `into` from `offset` on. Throws FileError if the file ends before.
void read_whole(const File& file, std::span<char> into, std::uint64_t offset);

}  // namespace torch_distinput
