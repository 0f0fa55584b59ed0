// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/dataset.h"
#include "torch_distinput/function.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// As `Dataset::with_other_functions`.
NodePtr with_other_functions(const NodePtr& node, const OtherFunction& other);

}  // namespace torch_distinput
