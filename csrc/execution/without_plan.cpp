// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/without_plan.h"

#include <vector>

namespace torch_distinput {

std::string op_without_plan(const Node& node, const IterContext& context) {
  const std::vector<NodePtr> inputs = node.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const IterContext own = context.input(i);
    if (inputs[i]->plan(own) == nullptr) return op_without_plan(*inputs[i], own);
  }
  return std::string(node.name());
}

}  // namespace torch_distinput
