// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/mixture_order.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Returns the plan of the first `size` elements of `order` over `parts`, one for each input; a part that is
/// never drawn may be null. `op` names the op in messages. REQUIRES: `order` knows where parts end before
/// `size`.
PlanPtr mixture_plan(std::vector<PlanPtr> parts, MixtureOrder order, std::int64_t size, std::string_view op);

}  // namespace torch_distinput
