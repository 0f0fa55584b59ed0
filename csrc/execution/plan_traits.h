// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The traits of a plan that is made of two others.
inline PlanTraits join(const PlanTraits& a, const PlanTraits& b) {
  return {.runs_user_code = a.runs_user_code || b.runs_user_code,
          .blocks = a.blocks || b.blocks,
          .remote = a.remote || b.remote,
          .num_parallel_calls = std::max(a.num_parallel_calls, b.num_parallel_calls),
          .read_ahead = std::max(a.read_ahead, b.read_ahead),
          .block = std::max(a.block, b.block),
          .together = std::max(a.together, b.together)};
}

}  // namespace torch_distinput
