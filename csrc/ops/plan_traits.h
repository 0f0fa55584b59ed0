// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// What a runner has to know about a plan made of two others.
inline PlanTraits join(const PlanTraits& a, const PlanTraits& b) {
  return {.foreign = a.foreign || b.foreign,
          .blocks = a.blocks || b.blocks,
          .lanes = std::max(a.lanes, b.lanes),
          .read_ahead = std::max(a.read_ahead, b.read_ahead)};
}

}  // namespace torch_distinput
