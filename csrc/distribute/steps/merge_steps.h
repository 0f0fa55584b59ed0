// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distribute/splitting/splitter.h"
#include "distribute/steps/built_step.h"

namespace torch_distinput {

/// Makes one step of `steps`, one or two consecutive ones; `splitter` assigns their rows to all parts.
/// REQUIRES: at least one row for each replica. Throws what `concat_rows` throws.
BuiltStep merge_steps(std::vector<BuiltStep> steps, const Splitter& splitter);

}  // namespace torch_distinput
