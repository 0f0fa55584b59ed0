// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include "torch_distinput/api.h"
#include "torch_distinput/arrow_abi.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/files.h"
#include "torch_distinput/function.h"

/// \file
/// Tables: columns of Arrow data become leaves.

namespace torch_distinput {

/// What happens to nulls of a column: an error, a value in their place, or a second leaf that tells them
/// apart.
struct NullRule {
  enum class Kind { kError, kMask, kFill };
  Kind kind = Kind::kError;
  /// kFill: a number fills columns of numbers and booleans, a text those of strings; nulls in a column of
  /// another kind are errors.
  std::variant<c10::Scalar, std::string> value = c10::Scalar(0);
};

/// How the columns of a table become leaves.
struct ColumnOptions {
  NullRule nulls = {};
  std::map<std::string, NullRule> nulls_of = {};  ///< for single columns, instead of `nulls`
  /// Leaves that are made of several columns of numbers, side by side along a last dim. The columns are no
  /// leaves of their own then.
  std::vector<std::pair<std::string, std::vector<std::string>>> stack = {};
  std::map<std::string, c10::ScalarType> dtypes = {};  ///< columns of numbers that become another dtype
};

/// The rows of all arrays of `stream`, which is read to its end now and released. Numbers, and strings with
/// 64-bit offsets, stay where they are: arrays are released with the last dataset that reads them. Random
/// access. Throws c10::TypeError for a type that no leaf can hold, c10::ValueError for bad arrays and
/// options, and InvalidArgumentError with the message of a stream that fails; all name the column.
TDI_API Dataset from_arrow(ArrowArrayStream* stream, const ColumnOptions& options = {});

/// The type of the rows of a stream of type `schema`, which is not released. Throws as `from_arrow`.
TDI_API ElementSpec arrow_spec(const ArrowSchema& schema, const ColumnOptions& options = {});
/// The rows of `stream`, one array after the other, for `Dataset::from_generator`. The stream is released
/// with the generator. Throws as `from_arrow`; `next` throws where an array is bad.
TDI_API std::unique_ptr<Generator> arrow_rows(ArrowArrayStream* stream, const ColumnOptions& options = {});

/// The blocks of one file in order, found as they are read. One thread at a time; may wait for the file.
class TDI_API BlockCursor {
 public:
  virtual ~BlockCursor();
  /// Goes to the next block, the first one at first, and returns its rows; nullopt behind the last one. After
  /// an error the next call tries again.
  virtual std::optional<std::int64_t> next() = 0;
  /// As `BlockReader::read`, of the present block.
  virtual void read(ArrowArrayStream* out) = 0;
  /// As `BlockReader::read_rows`, of the present block.
  virtual void read_rows(std::int64_t begin, std::int64_t end, ArrowArrayStream* out) = 0;
};

/// Reads tables from files, block by block. Safe from any thread; may wait for files.
class TDI_API BlockReader : public UserCode {
 public:
  ~BlockReader() override;
  /// Rows in each block of each file. Throws what makes a file unreadable, naming it.
  virtual std::vector<std::vector<std::int64_t>> count_rows(const std::vector<std::string>& files) const = 0;
  /// Whether all bytes of one of `files`, an object of a store, must be read before its rows are counted. May
  /// ask the store for an index of it.
  virtual bool lacks_index(const std::vector<std::string>& files) const;
  /// Writes the schema that `file` has; the caller releases it. All files must have the same.
  virtual void schema(const std::string& file, ArrowSchema* out) const = 0;
  /// Writes a stream of the rows of one block, `block` below the number of blocks in `file`; the caller
  /// releases it.
  virtual void read(const std::string& file, std::int64_t block, ArrowArrayStream* out) const = 0;
  /// The first of `blocks` of the URL `file` will be read soon, in this order: asks for their bytes without
  /// waiting, of as many as have at most `bytes` bytes, but of one at least, and returns the bytes of each.
  /// None: `read` asks for them. A hint: not all blocks that are read are announced.
  virtual std::vector<std::int64_t> will_read(const std::string& file,
                                              const std::vector<std::int64_t>& blocks,
                                              std::int64_t bytes) const;
  /// Whether rows of a block can be read apart from one another, so that a bad one costs the others nothing
  /// where rows that fail are skipped.
  virtual bool reads_rows() const { return false; }
  /// As `read`, but rows [`begin`, `end`) of the block alone. Called where `reads_rows`.
  virtual void read_rows(const std::string& file, std::int64_t block, std::int64_t begin, std::int64_t end,
                         ArrowArrayStream* out) const;
  /// The blocks of `file` in order, without counting them first. Null where counting them takes no pass over
  /// the file.
  virtual std::unique_ptr<BlockCursor> open(const std::string& file) const;
  /// The arguments besides the files, for `describe`; part of the identity of saved positions.
  virtual std::string arguments() const = 0;
};

/// Bytes of blocks that one dataset keeps, besides those in use.
inline constexpr std::int64_t kBlockCacheBytes = std::int64_t{256} << 20;
/// Bytes of blocks that all datasets of a process keep together, besides those in use and the windows of
/// shuffles of blocks.
inline constexpr std::int64_t kProcessBlockBytes = std::int64_t{1} << 30;

/// The rows of tables in files. Random access where the number of files is known, unless `index` is false:
/// then files are read one after the other, and their blocks counted or found (`BlockReader::open`)
/// meanwhile. Blocks that were read are kept as far as `kBlockCacheBytes` and `kProcessBlockBytes` allow.
TDI_API Dataset from_blocks(const FileNames& files, std::shared_ptr<const BlockReader> reader,
                            const ColumnOptions& options = {}, bool index = true);

}  // namespace torch_distinput
