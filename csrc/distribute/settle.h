// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/part.h"

namespace torch_distinput {

/// The rows of the element at `cursor`; nullopt at the end of the data. Where a cursor comes from a run
/// with other batches, its row may lie beyond its element: it is first moved on to the element that has it.
inline std::optional<std::int64_t> settle(SplitCursor& cursor, RowCounts& counts) {
  auto rows = counts.rows(cursor.element);
  while (rows && cursor.row > 0 && cursor.row >= *rows) {
    cursor.row -= *rows;
    rows = counts.rows(++cursor.element);
  }
  return rows;
}

}  // namespace torch_distinput
