// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "distribute/splitting/part.h"
#include "distribute/splitting/tail.h"

namespace torch_distinput {

/// The first element of the window of `window` elements that has `element`.
inline std::int64_t first_of_window(std::int64_t element, std::int64_t window) {
  return element - element % window;
}

/// Deals rows to parts, `sizes[p]` rows to part p, by what each costs. Returns the part of each row.
using DealRows = std::vector<std::int32_t> (*)(std::span<const double> costs,
                                               std::span<const std::int64_t> sizes);

/// Exchanges the rows of steps, as by `deal_by_cost` so that the parts of each cost about the same. The sizes
/// of parts stay, and so do the positions between steps: the rows of a window of elements (global batches)
/// are dealt to these elements, whatever the number of parts, and only then the rows of a step to its parts.
/// One thread at a time.
class StepBalancer {
 public:
  /// `window`: elements in a window, at least 1.
  StepBalancer(std::int64_t window, DealRows deal) : window_(window), deal_(deal) {}

  /// Exchanges the rows of `step`. `counts` is asked for all elements of their windows. Returns the part of
  /// each row, in the order of the data; empty where the parts, one after the other, are in that order.
  std::vector<std::int32_t> balance(AssignedStep& step, RowCounts& counts);
  /// The same without dealing rows to parts, which stay in order.
  void exchange(AssignedStep& step, RowCounts& counts);

 private:
  /// A row by its element, and its number there.
  struct Place {
    std::int64_t element;
    std::int64_t row;
    bool operator<(const Place& other) const {
      return element != other.element ? element < other.element : row < other.row;
    }
  };
  struct CostedRow {
    Place place;
    double cost;
  };
  /// The rows that each element of a window gets, in order.
  struct Window {
    std::int64_t first;
    std::vector<std::vector<CostedRow>> rows;
  };

  std::vector<CostedRow> rows_of(const AssignedStep& step, RowCounts& counts);
  const Window& window_of(std::int64_t element, RowCounts& counts);
  Window deal_window(std::int64_t first, RowCounts& counts) const;
  static void hand_out(AssignedStep& step, const std::vector<CostedRow>& rows,
                       const std::vector<std::int32_t>& parts);

  std::int64_t window_;
  DealRows deal_;
  std::deque<Window> windows_;  ///< the last two: a step may join the rows of two elements
};

}  // namespace torch_distinput
