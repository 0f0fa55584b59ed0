// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// `node` with `change` applied to its inputs.
template <class Change>
NodePtr change_inputs(const NodePtr& node, Change change) {
  std::vector<NodePtr> inputs = node->inputs();
  if (inputs.empty()) return node;
  for (NodePtr& input : inputs) input = change(input);
  return node->with_inputs(std::move(inputs));
}

}  // namespace torch_distinput
