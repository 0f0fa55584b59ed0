// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribute/splitting/splitter.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// A step as the splitter assigned it: a part for every replica that shares the stream.
struct AssignedStep {
  std::vector<Part> parts = {};
  std::int64_t rows = 0;  ///< in all parts
  SplitPosition before = {};
  SplitPosition after = {};
};

/// Whether the epoch ends before `step`: under `kDrop` before a last step that is short, under `kUntilFirst`
/// before the first step in which a replica has no row. `full`: the rows of a full step.
bool tail_ends(Tail tail, const AssignedStep& step, bool is_last, std::int64_t full);

/// Fills the parts of a short step up to `shares`, rows for each part, under `kPadded` and, for the last
/// step, under `kRepeat`. `kPadded` repeats a part's last row, or the step's last row for a part without
/// rows. `kRepeat` assigns the step's rows and then the first rows of the epoch, repeatedly if there are too
/// few; `counts` must know the first elements. Returns the number of rows of each part that count.
std::vector<std::int64_t> fill_short_step(Tail tail, AssignedStep& step, bool is_last,
                                          const std::vector<std::int64_t>& shares, RowCounts& counts);

/// Whether some replica gets no row of `step`.
bool lacks_rows(const AssignedStep& step);

/// Under `kMerge`: assigns the rows of `step`, followed by those of the last step `next` unless it is null,
/// to all replicas. Returns whether there is a row for each; else leaves `step` as it is.
bool deal_to_all(AssignedStep& step, const AssignedStep* next, const Splitter& splitter);

/// `zero_rows`, `padded`, ...
std::string tail_name(Tail tail);

}  // namespace torch_distinput
