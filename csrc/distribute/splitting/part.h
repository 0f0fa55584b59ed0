// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <c10/util/SmallVector.h>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// One replica's share of one step: rows of the incoming elements (global batches), in order.
struct Part {
  /// A segment without rows keeps the place of a part that was produced with zero rows.
  c10::SmallVector<Segment, 1> segments = {};
  std::int64_t rows = 0;  ///< rows in `segments`
  bool present = true;    ///< false: the data had ended before this part
  bool filled = false;    ///< holds rows that other parts hold too
  /// This part is piece `piece` of `pieces` of its element. Each leaf is cut by itself in this way if leaves
  /// have different numbers of rows. `pieces == 0`: such elements are refused.
  std::int64_t piece = 0;
  std::int64_t pieces = 0;

  /// Appends `segment` and counts its rows.
  void add(Segment segment) {
    segments.push_back(segment);
    rows += segment.end - segment.begin;
  }
};

/// A splitter's position in the sequence of incoming elements. `row + part_rows` rows of `element` are
/// assigned, for any splitter; only a splitter that cuts the same rows in the same way continues between two
/// parts.
struct SplitPosition {
  std::int64_t element = 0;    ///< first element that is not assigned completely
  std::int64_t row = 0;        ///< rows of it that are assigned, without `part_rows`
  std::int64_t part = 0;       ///< parts of its other rows (or, for sizes taken in turn, sizes) already used
  std::int64_t part_rows = 0;  ///< rows in those parts; 0 for sizes taken in turn
  bool ended = false;          ///< the last part was short, so no part follows
  bool operator==(const SplitPosition&) const = default;
};

/// The number of rows of each incoming element, which is all that a splitter knows about the data, and their
/// costs, by which rows are exchanged after that.
class RowCounts {
 public:
  virtual ~RowCounts() = default;
  /// Rows of element `element`; nullopt: there is no such element. May read data and throw what that throws.
  virtual std::optional<std::int64_t> rows(std::int64_t element) = 0;
  /// The number for `rows` of element `index` of the epoch. It differs from `index` in a resumed run that
  /// continues the numbers of an earlier one, because their batches may differ.
  virtual std::int64_t from_start(std::int64_t index) { return index; }
  /// What the rows in `segments` cost, one after the other. May read data and throw what that throws.
  /// REQUIRES: costs were given.
  virtual std::vector<double> costs(std::span<const Segment> segments);
};

}  // namespace torch_distinput
