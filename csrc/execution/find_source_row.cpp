// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/find_source_row.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace torch_distinput {
namespace {

/// Elements whose rows are asked for at once.
constexpr std::int64_t kSearchedTogether = 1024;

/// The index of `row` among the source rows of elements [`begin`, `end`); nullopt if none has it.
std::optional<std::int64_t> index_in(const Plan& plan, std::int64_t begin, std::int64_t end,
                                     std::int64_t row) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  std::vector<std::int64_t> rows;
  plan.source_rows(positions, rows);
  const auto found = std::find(rows.begin(), rows.end(), row);
  if (found == rows.end()) return std::nullopt;
  return found - rows.begin();
}

}  // namespace

std::optional<SourceRowPlace> find_source_row(const Plan& plan, std::int64_t row) {
  const std::int64_t size = std::min(plan.size(), kMostSearched);
  for (std::int64_t begin = 0; begin < size; begin += kSearchedTogether) {
    const std::int64_t end = std::min(begin + kSearchedTogether, size);
    if (!index_in(plan, begin, end, row)) continue;
    for (std::int64_t element = begin; element < end; ++element) {
      if (const auto index = index_in(plan, element, element + 1, row)) return {{element, *index}};
    }
  }
  return std::nullopt;
}

}  // namespace torch_distinput
