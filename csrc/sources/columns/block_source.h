// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sources/columns/block_parts.h"
#include "sources/columns/block_run.h"
#include "sources/columns/row_type.h"
#include "torch_distinput/arrow_abi.h"

namespace torch_distinput {

/// One block of a file, and how its rows are read; its functions may wait for the file and throw its errors.
struct BlockSource {
  using Read = std::function<void(ArrowArrayStream* out)>;
  using ReadRows = std::function<void(std::int64_t begin, std::int64_t end, ArrowArrayStream* out)>;

  std::string name;  ///< in messages: the op, and the file
  std::int64_t block = 0;
  std::int64_t first_row = 0;  ///< the rows of the file before it
  std::int64_t rows = 0;
  Read read;
  ReadRows read_rows;  ///< null where rows cannot be read apart from one another
};

/// The rows of a block. Throws what reading them throws, and InvalidArgumentError where they are others than
/// `source` says.
BlockPtr whole_block(const RowType& type, const BlockSource& source);
/// The same, for rows that are read in random order (`with_rows_together`).
BlockPtr scattered_block(const RowType& type, const BlockSource& source);
/// The rows of a block from row `begin` of it on, apart from one another as far as can be. Throws as
/// `whole_block`. REQUIRES: `type` outlives the parts.
BlockParts parts_of_block(const RowType& type, BlockSource source, std::int64_t begin);

}  // namespace torch_distinput
