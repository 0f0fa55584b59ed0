// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace torch_distinput {

/// Sums over prefixes of [0, n), kept at every 256th position: increasing positions cost O(1) each, and so
/// does a position that was asked for before. Safe from any thread.
class RowTotals {
 public:
  /// Sum over the positions [begin, end), at most 256 of them.
  using SumRange = std::function<std::int64_t(std::int64_t begin, std::int64_t end)>;

  /// Sum over [0, `position`). `sum` must return the same at every call; it runs under this object's lock.
  std::int64_t before(std::int64_t position, const SumRange& sum) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> totals_{0};
};

}  // namespace torch_distinput
