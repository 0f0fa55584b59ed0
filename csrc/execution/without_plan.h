// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The name of the op because of which the pipeline up to `node` has no plan. REQUIRES: it has none.
std::string op_without_plan(const Node& node, const IterContext& context);

}  // namespace torch_distinput
