// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// The rows of one window in batches.
struct CostBatches {
  std::vector<std::int32_t> rows;  ///< of one batch after the other, in order within each
  std::vector<std::int32_t> ends;  ///< the place in `rows` after each batch

  std::int64_t count() const { return std::ssize(ends); }
  /// The place in `rows` of the first row of batch `batch`.
  std::int64_t begin(std::int64_t batch) const {
    return batch == 0 ? 0 : ends[static_cast<std::size_t>(batch - 1)];
  }
  /// The rows of batch `batch`.
  std::span<const std::int32_t> rows_of(std::int64_t batch) const {
    return std::span(rows).subspan(
        static_cast<std::size_t>(begin(batch)),
        static_cast<std::size_t>(ends[static_cast<std::size_t>(batch)] - begin(batch)));
  }
};

/// Puts each row into one batch so that the costs of a batch add up to at most `budget`, and rows of similar
/// costs are together: of the rows sorted by cost, runs as long as the budget allows, filled up with rows of
/// at least half the cost of the dearest; then the same with the smallest part of the budget that, as far as
/// a short search finds, takes no more batches. Batches are ordered by the place of their dearest row, which
/// is random if the rows are in random order. A pure function of its arguments: the same on every machine.
/// REQUIRES: fewer than 2^31 rows, each at least 0 and at most `budget`.
CostBatches batch_costs(std::span<const double> costs, double budget);

}  // namespace torch_distinput
