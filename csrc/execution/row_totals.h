// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace torch_distinput {

/// Sums over prefixes of [0, n), kept at every 256th position: asking for a growing
/// position costs O(1) per position, asking again O(1). Any thread may call.
class RowTotals {
 public:
  /// Sum over the positions [begin, end), at most 256 of them.
  using SumRange = std::function<std::int64_t(std::int64_t begin, std::int64_t end)>;

  /// Sum over [0, `position`). `sum` must give equal answers at every call.
  std::int64_t before(std::int64_t position, const SumRange& sum) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> totals_{0};
};

}  // namespace torch_distinput
