// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/best_fit.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace torch_distinput {

std::vector<std::vector<std::size_t>> best_fit_rows(const std::vector<std::int64_t>& counts,
                                                    std::int64_t length, std::int64_t most_documents) {
  std::vector<std::size_t> longest_first(counts.size());
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::stable_sort(longest_first.begin(), longest_first.end(),
                   [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::vector<std::vector<std::size_t>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // the room that is left in a row, and the row
  for (const std::size_t piece : longest_first) {
    const auto best = open.lower_bound({counts[piece], 0});
    std::int64_t space = length;
    std::size_t row = rows.size();
    if (best == open.end()) {
      rows.emplace_back();
    } else {
      std::tie(space, row) = *best;
      open.erase(best);
    }
    rows[row].push_back(piece);
    space -= counts[piece];
    if (space > 0 && static_cast<std::int64_t>(rows[row].size()) < most_documents) open.insert({space, row});
  }
  for (auto& row : rows) std::sort(row.begin(), row.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace torch_distinput
