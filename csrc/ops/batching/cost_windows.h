// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/batching/cost_batches.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The arguments of `batch_by_cost`.
struct CostRules {
  double budget;        ///< the most that the rows of a batch cost together, positive
  std::int64_t window;  ///< rows among which batches are made, at least 1 and below 2^31
};

/// `batch_costs` for the rows of one window. Throws c10::ValueError for a row that costs more than the
/// budget; `row_number` tells the number of the row at a place of the window for the message.
CostBatches batches_of_window(const std::vector<double>& costs, const CostRules& rules,
                              const std::function<std::int64_t(std::int64_t)>& row_number);

/// Which rows are in which batch, for rows whose costs are known. A window after the other is put into
/// batches as far as batches are asked for; of most windows only the number of batches is kept. Safe from any
/// thread; throws as `batches_of_window`.
class CostWindows {
 public:
  /// `costs`: a float64 scalar for each row. `row_number`: of the row at a position.
  CostWindows(PlanPtr costs, CostRules rules, std::function<std::int64_t(std::int64_t)> row_number);

  /// The number of all batches, or `kEndless`.
  std::int64_t count() const;
  /// A batch in its window.
  struct Place {
    std::int64_t first_row;                      ///< the position of the window's first row
    std::shared_ptr<const CostBatches> batches;  ///< of the window
    std::int64_t batch;                          ///< the number of the batch in it
  };
  /// REQUIRES: `batch` is below `count()`.
  Place find(std::int64_t batch) const;
  /// The rows of all batches before `batch`, which is at most `count()`.
  std::int64_t rows_before(std::int64_t batch) const;

 private:
  using Batches = std::shared_ptr<const CostBatches>;

  Batches compute(std::int64_t window) const;
  Batches batches_of(std::int64_t window) const;
  void keep(std::int64_t window, const Batches& batches) const;
  bool count_to(std::int64_t batch) const;

  PlanPtr costs_;
  CostRules rules_;
  std::function<std::int64_t(std::int64_t)> row_number_;
  std::int64_t rows_;     ///< or `kEndless`
  std::int64_t windows_;  ///< or `kEndless`
  mutable std::mutex counting_;
  mutable std::vector<std::int64_t> totals_{0};  ///< the batches before each window, as far as counted
  mutable std::mutex kept_mutex_;
  mutable std::deque<std::pair<std::int64_t, Batches>> kept_;  ///< the windows used last
};

}  // namespace torch_distinput
