// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/sharding/row_assignment.h"

namespace torch_distinput {

/// A node that yields the stream of parts of one rank: `assignment.node` cut by `assignment.splitter`, and
/// of each `assignment.width` parts the local ones, in order. `spec`: of the parts; null: not known.
NodePtr parts_node(RowAssignment assignment, SpecPtr spec);

}  // namespace torch_distinput
