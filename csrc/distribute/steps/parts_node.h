// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/sharding/row_assignment.h"

namespace torch_distinput {

/// The stream of parts that one worker gets, as a dataset: `assignment.node` cut by `assignment.splitter`,
/// and of each `assignment.width` parts the local ones, in the order of their numbers. `spec`: of the parts;
/// may be null.
NodePtr parts_node(RowAssignment assignment, SpecPtr spec);

}  // namespace torch_distinput
