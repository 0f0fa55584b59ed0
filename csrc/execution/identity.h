// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// What must be equal for a saved position of `node` to be valid: the `identity` of each op, from the sources
/// to `node`, as a list of strings. The size of the last `batch` is left out where nothing after it depends
/// on it.
State pipeline_identity(const NodePtr& node);

/// Throws c10::ValueError naming the first difference between a saved identity and this pipeline's.
void check_identity(const State& saved, const State& current);

}  // namespace torch_distinput
