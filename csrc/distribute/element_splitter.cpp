// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/element_splitter.h"

#include <algorithm>

#include "distribute/settle.h"

namespace torch_distinput {

std::vector<Part> ElementSplitter::deal(SplitCursor& cursor, RowCounts& counts, std::int64_t count) const {
  std::vector<Part> dealt;
  dealt.reserve(static_cast<std::size_t>(count));
  SplitCursor at = cursor;
  while (std::ssize(dealt) < count) {
    const auto rows = settle(at, counts);
    if (!rows) break;
    const auto sizes = cut(*rows - at.row);
    std::int64_t begin = at.row;
    for (std::int64_t k = 0; k < at.part; ++k) begin += sizes[static_cast<std::size_t>(k)];
    for (; at.part < parts() && std::ssize(dealt) < count; ++at.part) {
      const std::int64_t end = begin + sizes[static_cast<std::size_t>(at.part)];
      Part& part = dealt.emplace_back();
      part.add({at.element, begin, end});
      part.piece = at.part;
      part.pieces = cuts_leaves() ? parts() : 0;
      begin = end;
    }
    if (at.part == parts()) at = {.element = at.element + 1};
  }
  cursor = at;
  return dealt;
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
