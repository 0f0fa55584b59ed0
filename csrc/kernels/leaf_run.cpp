// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/leaf_run.h"

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "torch_distinput/error.h"

namespace torch_distinput {

std::string LeafPlace::name() const {
  return c10::str(op, ": ", leaf_name(*elements.front().structure(), leaf));
}

void LeafPlace::refuse_mixed(std::string_view what, std::string_view first, std::size_t index,
                             std::string_view other, std::string_view advice) const {
  const std::string of = stacking ? " of the batch" : "";
  const std::string text = c10::str(name(), " must have one ", what, ", but is ", first, " in element 0", of,
                                    " and ", other, " in element ", index, "; ", advice, ".");
  if (what.starts_with("shape")) {
    if (stacking) throw UnequalRowsError(text);
    throw FailedPreconditionError(text);
  }
  C10_THROW_ERROR(ValueError, text);
}

void LeafPlace::require_one_kind() const {
  const Leaf& first = elements.front().leaves()[leaf];
  for (std::size_t i = 1; i < elements.size(); ++i) {
    const Leaf& here = elements[i].leaves()[leaf];
    if (here.index() != first.index())
      refuse_mixed("kind", leaf_kind(first), i, leaf_kind(here), "map it to one kind");
  }
}

}  // namespace torch_distinput
