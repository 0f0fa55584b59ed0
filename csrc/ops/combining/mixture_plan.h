// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/input_order.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The plan of the input with this number; null for a stream.
using PlanOfInput = std::function<PlanPtr(std::size_t input)>;

/// Returns the plan of the first `size` elements of `order` over `parts`, one for each input; a part without
/// elements there may be null. `turns`: the plan whose elements name the inputs in that order; null where
/// none does. `op` names the op in messages. `undrawn`: makes the plan of a null part, only to number
/// source rows; empty where no part is null. REQUIRES: `order` knows where parts end before `size`.
PlanPtr mixture_plan(std::vector<PlanPtr> parts, std::shared_ptr<const InputOrder> order, std::int64_t size,
                     PlanPtr turns, std::string_view op, PlanOfInput undrawn);

}  // namespace torch_distinput
