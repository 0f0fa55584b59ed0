// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "execution/execution_context.h"
#include "ops/buffering/row_memory.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Returns `input` with each row kept in `memory` from its first read on. REQUIRES: the size of `input` is
/// finite, and `memory` was made for an equal plan.
PlanPtr cache_plan(PlanPtr input, std::shared_ptr<RowMemory> memory,
                   std::shared_ptr<ExecutionContext> execution);

}  // namespace torch_distinput
