// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// What one replica gets of one step: rows of the incoming elements (global batches), in order.
struct Part {
  /// A segment without rows keeps the place of a part that was produced with zero rows.
  c10::SmallVector<Segment, 1> segments = {};
  std::int64_t rows = 0;  ///< rows in `segments`
  bool present = true;    ///< false: the data had ended, the part is made up
  bool filled = false;    ///< holds rows that other parts hold too
  /// Cut `piece` of `pieces` of its element, for elements whose leaves have different numbers of
  /// rows: then each leaf is cut by itself. `pieces == 0`: such elements are refused.
  std::int64_t piece = 0;
  std::int64_t pieces = 0;

  void add(Segment segment) {
    segments.push_back(segment);
    rows += segment.end - segment.begin;
  }
};

/// Where a splitter stands in the sequence of incoming elements. `row + part_rows` rows of its element are
/// assigned, whoever goes on: only the same cut of the same rows goes on between two parts.
struct SplitPosition {
  std::int64_t element = 0;    ///< first element that is not assigned completely
  std::int64_t row = 0;        ///< rows of it that are assigned, but for those in `part` parts of the others
  std::int64_t part = 0;       ///< parts of the others (or, for sizes taken in turn, sizes) already used
  std::int64_t part_rows = 0;  ///< rows in those parts; 0 for sizes taken in turn
  bool ended = false;          ///< a short part was the last one
  bool operator==(const SplitPosition&) const = default;
};

/// The number of rows of each incoming element: all a splitter knows about the data.
class RowCounts {
 public:
  virtual ~RowCounts() = default;
  /// Rows of element `element`; nullopt: there is no such element. May read data and throw what that throws.
  virtual std::optional<std::int64_t> rows(std::int64_t element) = 0;
  /// The number under which element `index` of the epoch goes: another one where a resumed run, whose batches
  /// may be others, counts on from the numbers of an earlier one.
  virtual std::int64_t from_start(std::int64_t index) { return index; }
};

}  // namespace torch_distinput
