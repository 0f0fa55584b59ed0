// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Returns an iterator that reads the rows of `plan` one by one, so that a row that fails can be skipped
/// where the options allow it. The state is the next position, and the rows skipped. `op`: the source's name,
/// in messages.
IteratorPtr rows_one_by_one(PlanPtr plan, const IterContext& context, std::string op);

}  // namespace torch_distinput
