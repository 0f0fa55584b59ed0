// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/cut_rows.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/names.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

constexpr const char* kCutRowsName = "distribute_dataset";

Element single(const Leaf& leaf) { return {Structure::leaf(), {leaf}}; }

Element cut_leaves(const Element& element, std::int64_t piece, std::int64_t pieces) {
  std::vector<Leaf> leaves;
  for (const Leaf& leaf : element.leaves()) {
    const std::int64_t rows = single(leaf).rows().value_or(0);
    const std::int64_t interval = (rows + pieces - 1) / pieces;
    Element cut = slice_rows(single(leaf), std::min(piece * interval, rows),
                             std::min((piece + 1) * interval, rows), kCutRowsName);
    leaves.push_back(std::move(cut.leaves().front()));
  }
  return {element.structure(), std::move(leaves)};
}

}  // namespace

std::int64_t count_rows(const Element& element, std::int64_t number, bool whole, bool cuts_leaves) {
  if (const auto rows = element.rows()) return *rows;
  if (whole) return 1;
  TORCH_CHECK_VALUE(!element.leaves().empty(), kCutRowsName, ": element ", number,
                    " has no leaf whose rows could be assigned over replicas.");
  std::int64_t most = 0;
  for (std::size_t i = 0; i < element.leaves().size(); ++i) {
    const auto rows = single(element.leaves()[i]).rows();
    TORCH_CHECK_VALUE(rows.has_value(), kCutRowsName, ": element ", number, ": ",
                      leaf_name(*element.structure(), i),
                      " has no rows to assign over replicas. Call `batch` on the dataset first.");
    TORCH_CHECK_VALUE(cuts_leaves || i == 0 || *rows == most, kCutRowsName, ": element ", number,
                      ": all leaves must have the same number of rows, but ",
                      leaf_name(*element.structure(), 0), " has ", most, " and ",
                      leaf_name(*element.structure(), i), " has ", *rows, ".");
    most = std::max(most, *rows);
  }
  return most;
}

Element cut_part(const Element& element, const Segment& segment, const Part& part) {
  if (const auto rows = element.rows()) {
    if (segment.begin == 0 && segment.end == *rows) return element;
    return slice_rows(element, segment.begin, segment.end, kCutRowsName);
  }
  if (part.pieces == 1) return element;
  TORCH_CHECK_VALUE(
      part.pieces > 0, kCutRowsName, ": element ", segment.element,
      ": its leaves have different numbers of rows, so ",
      part.filled
          ? "a short step cannot be filled (`tail`)."
          : "neither what an earlier run left of it nor a step that `tail` \"merge\" joined can be cut.");
  return cut_leaves(element, part.piece, part.pieces);
}

Element copy_rows(const Element& element) {
  const auto rows = element.rows();
  if (!rows) return element;
  const std::array both{element, slice_rows(element, *rows, *rows, kCutRowsName)};
  return concat_rows(both, kCutRowsName);
}

}  // namespace torch_distinput
