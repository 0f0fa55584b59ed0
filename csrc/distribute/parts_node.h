// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/dealing.h"

namespace torch_distinput {

/// The stream of parts that one worker gets, as a dataset: `dealing.node` cut by `dealing.splitter`, and
/// of each `dealing.width` parts the local ones, in the order of their numbers. `spec`: of the parts; may
/// be null.
NodePtr parts_node(Dealing dealing, SpecPtr spec);

}  // namespace torch_distinput
