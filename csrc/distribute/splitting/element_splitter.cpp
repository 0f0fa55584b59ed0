// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/element_splitter.h"

#include <algorithm>
#include <numeric>

#include "distribute/splitting/settle.h"

namespace torch_distinput {

/// Whether the parts before `at`, a position between parts of an element of `rows` rows, are this splitter's.
bool ElementSplitter::stands_between_parts(const SplitPosition& at, std::int64_t rows) const {
  if (at.row > rows || at.part >= parts()) return false;
  const auto sizes = cut(rows - at.row);
  return std::accumulate(sizes.begin(), sizes.begin() + at.part, std::int64_t{0}) == at.part_rows;
}

std::vector<Part> ElementSplitter::assign(SplitPosition& split, RowCounts& counts, std::int64_t count) const {
  std::vector<Part> assigned;
  assigned.reserve(static_cast<std::size_t>(count));
  SplitPosition at = split;
  if (at.part > 0) {
    const auto rows = counts.rows(at.element);
    if (!rows || !stands_between_parts(at, *rows)) at = {.element = at.element, .row = at.row + at.part_rows};
  }
  while (std::ssize(assigned) < count) {
    const auto rows = settle(at, counts);
    if (!rows) break;
    const auto sizes = cut(*rows - at.row);
    std::int64_t begin = at.row + at.part_rows;
    for (; at.part < parts() && std::ssize(assigned) < count; ++at.part) {
      const std::int64_t size = sizes[static_cast<std::size_t>(at.part)];
      Part& part = assigned.emplace_back();
      part.add({at.element, begin, begin + size});
      part.piece = at.part;
      part.pieces = cuts_leaves() && at.row == 0 ? parts() : 0;
      begin += size;
      at.part_rows += size;
    }
    if (at.part == parts()) at = {.element = at.element + 1};
  }
  split = at;
  return assigned;
}

std::vector<std::int64_t> ElementSplitter::shares(std::int64_t batch, std::int64_t first,
                                                  std::int64_t count) const {
  const auto sizes = cut(batch);
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(count));
  std::generate(wanted.begin(), wanted.end(),
                [&] { return sizes[static_cast<std::size_t>(first++ % parts())]; });
  return wanted;
}

}  // namespace torch_distinput
