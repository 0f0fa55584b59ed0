// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/splitting/part.h"

namespace torch_distinput {

/// The rows of the element at `split`; nullopt at the end of the data. Where a split comes from a run
/// with other batches, its row may lie beyond its element: it is first moved on to the element that has it.
inline std::optional<std::int64_t> settle(SplitPosition& split, RowCounts& counts) {
  auto rows = counts.rows(split.element);
  while (rows && split.row > 0 && split.row >= *rows) {
    split.row -= *rows;
    rows = counts.rows(++split.element);
  }
  return rows;
}

}  // namespace torch_distinput
