// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "execution/execution_context.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// About how many requests a run over `plan` makes: those for some elements, which are told what to read as
/// an iterator tells it, and as many for the others. Unset where the plan cannot tell. REQUIRES: the plan
/// ends.
std::optional<std::uint64_t> announced_by(const Plan& plan, const ExecutionContext& execution);

}  // namespace torch_distinput
