// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/missing_part.h"

#include <vector>

#include <ATen/ops/zeros.h>

#include "distribute/steps/zero_part.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

Element repeat_row(const Element& part, std::int64_t row, std::int64_t times) {
  const std::vector<Element> rows(static_cast<std::size_t>(times),
                                  slice_rows(part, row, row + 1, "distribute_dataset"));
  return concat_rows(rows, "distribute_dataset");
}

/// `part`, which has no rows, with `rows` rows of zeros in its dense leaves; other leaves stay without rows.
Element fill_with_zeros(Element part, std::int64_t rows) {
  for (Leaf& leaf : part.leaves()) {
    auto* const dense = std::get_if<at::Tensor>(&leaf);
    if (dense == nullptr) continue;
    Dims shape = dense->sizes().vec();
    shape.front() = rows;
    *dense = at::zeros(shape, dense->options());
  }
  return part;
}

}  // namespace

Element missing_part(const Distribution& distribution) {
  const RowAssignment& assignment = distribution.assignment;
  return assignment.whole ? zero_element(distribution.spec, *assignment.node)
                          : zero_part(distribution.spec, *assignment.node);
}

Element ended_part(const Distribution& distribution, std::int64_t full, const std::optional<Element>& last) {
  if (distribution.input.tail != Tail::kPadded || full == 0) return missing_part(distribution);
  if (!last) return fill_with_zeros(missing_part(distribution), full);
  return repeat_row(*last, last->rows().value() - 1, full);
}

}  // namespace torch_distinput
