// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sources/columns/blocks_in_order.h"
#include "sources/records/files_iterator.h"

namespace torch_distinput {

/// Where a block fails, its rows are looked at apart from one another, and the error is that of the first bad
/// one. All its rows are lost where the reader cannot read the block itself, and the rest of a file where it
/// cannot find the next block.
class ColumnFilesIterator final : public FilesIterator {
 public:
  /// `finds`: blocks are found as they are read, where the reader can do so.
  ColumnFilesIterator(IteratorPtr names, std::shared_ptr<ColumnFiles> files, bool finds,
                      const IterContext& context)
      : FilesIterator(std::move(names), files->name(), context), files_(std::move(files)), finds_(finds) {}

 private:
  void open(const std::string& file, std::int64_t position) override;
  std::optional<Element> read() override;
  std::int64_t rows_lost() const override { return rows_lost_; }
  std::int64_t position() const override { return row_; }

  bool next_block();
  void begin_part();
  bool begin_block();

  std::shared_ptr<ColumnFiles> files_;
  bool finds_;
  std::unique_ptr<BlocksInOrder> blocks_;  ///< of the file opened last
  bool ended_ = false;                     ///< whether that file has no more blocks
  std::int64_t block_begin_ = 0;           ///< the rows of that file before its present block
  std::int64_t block_end_ = 0;             ///< and those with it
  std::int64_t row_ = 0;                   ///< the next row of that file
  BlockPtr part_;                          ///< rows of that file that lie together
  std::int64_t part_begin_ = 0;            ///< the number of their first one in the file
  std::optional<BlockParts> parts_;        ///< the rest of a block that failed as a whole
  std::int64_t rows_lost_ = 1;             ///< by the last error of `read`
};

}  // namespace torch_distinput
