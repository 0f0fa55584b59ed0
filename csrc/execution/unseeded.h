// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Whether the elements of `node` depend on the base seed and on its place in the graph, because a random op
/// has no seed of its own.
bool unseeded(const Node& node);

}  // namespace torch_distinput
