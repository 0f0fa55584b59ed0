// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/unseeded.h"

#include <algorithm>
#include <vector>

namespace torch_distinput {

bool unseeded(const Node& node) {
  if (node.traits().unseeded) return true;
  const std::vector<NodePtr> inputs = node.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [](const NodePtr& input) { return unseeded(*input); });
}

}  // namespace torch_distinput
