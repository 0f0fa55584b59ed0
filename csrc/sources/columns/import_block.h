// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sources/columns/arrow_owned.h"
#include "sources/columns/column_type.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// Rows that lie together: each leaf has `rows` rows along dim 0; the numbers of one row of a dense leaf
/// follow each other. Nobody else has its leaves, so their memory stays where it is.
struct RowBlock {
  /// Where the rows of a dense leaf lie: row i at `data` + i * `stride`.
  struct DenseRows {
    const char* data = nullptr;
    std::int64_t stride = 0;
  };

  RowBlock(Element leaves, std::int64_t num_rows);

  Element value;
  std::vector<DenseRows> dense;  ///< one for each leaf; without data for those that are not dense
  DenseRows together;            ///< where all dense leaves of a row lie together; else without data
  std::int64_t rows;
};

/// What messages say of an array.
struct BlockPlace {
  std::string name;            ///< the op, and the file where there is one
  std::int64_t first_row = 0;  ///< the number of the array's first row
};

/// Checks `batch` once, in O(rows), and returns its columns as leaves of `type.stored`. Numbers, and values
/// of strings and lists, stay in the memory of `batch`, which the leaves hold; columns that are stored in
/// another form (bits, dictionaries, views, nulls that have a value put in their place) are copied. Strings
/// are not checked to be UTF-8. Throws InvalidArgumentError naming place, column and row for an array that
/// does not fit its type and for a null where the column's rule is kError.
RowBlock import_block(const TableType& type, const ArrowBatch& batch, const BlockPlace& place);
/// The same for rows [`begin`, `end`) of `batch` alone. `place` is that of the whole batch. REQUIRES: they
/// are rows of it.
RowBlock import_rows(const TableType& type, const ArrowBatch& batch, const BlockPlace& place,
                     std::int64_t begin, std::int64_t end);

}  // namespace torch_distinput
