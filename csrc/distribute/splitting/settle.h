// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/splitting/part.h"

namespace torch_distinput {

/// The number of rows of the element at `split`; nullopt at the end of the data. A position of a run with
/// other batches may have a row beyond its element; `split` is first moved to the element that has this row.
inline std::optional<std::int64_t> settle(SplitPosition& split, RowCounts& counts) {
  auto rows = counts.rows(split.element);
  while (rows && split.row > 0 && split.row >= *rows) {
    split.row -= *rows;
    rows = counts.rows(++split.element);
  }
  return rows;
}

}  // namespace torch_distinput
