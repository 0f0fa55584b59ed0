// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Whether both are known, and rows of one can lie beside rows of the other.
inline bool same_layout(const RowLayout* a, const RowLayout* b) {
  if (a == nullptr || b == nullptr) return false;
  return a->structure == b->structure &&
         std::equal(a->leaves.begin(), a->leaves.end(), b->leaves.begin(), b->leaves.end(),
                    [](const LeafLayout& x, const LeafLayout& y) {
                      return x.dtype == y.dtype && x.shape == y.shape;
                    });
}

}  // namespace torch_distinput
