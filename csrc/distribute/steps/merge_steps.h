// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "distribute/splitting/splitter.h"
#include "distribute/steps/built_step.h"

namespace torch_distinput {

/// The rows of `steps`, one or two that follow each other, as one step whose parts share them as `splitter`
/// deals out to all. REQUIRES: there is a row for each replica. Throws what `concat_rows` throws.
BuiltStep merge_steps(std::vector<BuiltStep> steps, const Splitter& splitter);

}  // namespace torch_distinput
