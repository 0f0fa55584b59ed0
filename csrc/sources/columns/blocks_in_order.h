// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sources/columns/file_blocks.h"

namespace torch_distinput {

/// The blocks of one file, one after the other. One thread at a time.
class BlocksInOrder {
 public:
  virtual ~BlocksInOrder() = default;
  /// Goes to the next block that has rows; false behind the last one. May wait for the file and throw its
  /// errors; then, the next call tries again.
  virtual bool next() = 0;
  /// The rows of the present block.
  virtual std::int64_t rows() const = 0;
  /// The present block; may wait and throw, as `BlockSet::block`.
  virtual BlockPtr block() = 0;
  /// How the present block is read. REQUIRES: it is used before the next call of `next`.
  virtual BlockSource source() const = 0;
  virtual const std::shared_ptr<const RowType>& type() const = 0;
};

/// Those of `file`: counted beforehand, or found as they are read where `finds` and the reader can do so.
/// Throws what opening the file throws.
std::unique_ptr<BlocksInOrder> blocks_in_order(std::shared_ptr<ColumnFiles> files, const std::string& file,
                                               bool finds);

}  // namespace torch_distinput
