// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribute/splitting/part.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// A step as the splitter assigned it: a part for every replica that shares the stream.
struct AssignedStep {
  std::vector<Part> parts = {};
  std::int64_t rows = 0;  ///< in all parts
  SplitPosition before = {};
  SplitPosition after = {};
};

/// Whether `step` ends the epoch instead of being delivered: the last one under `kDrop` when it is short,
/// under `kUntilFirst` the first one in which a replica has no row. `full`: the rows of a full step.
bool tail_ends(Tail tail, const AssignedStep& step, bool is_last, std::int64_t full);

/// Under `kPadded` and, for the last step, `kRepeat` fills the parts of a short step up to `shares`; else
/// leaves them. `kPadded` repeats a part's last row, or the step's last row for a part without rows.
/// `kRepeat` deals the step's rows and then the first rows of the epoch, again from the first if there are
/// too few; it asks `counts` for the first elements. Returns the rows that count, a number for each part.
std::vector<std::int64_t> fill_short_step(Tail tail, AssignedStep& step, bool is_last,
                                          const std::vector<std::int64_t>& shares, RowCounts& counts);

/// `zero_rows`, `padded`, ...
std::string tail_name(Tail tail);

}  // namespace torch_distinput
