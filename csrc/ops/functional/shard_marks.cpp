// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/shard_marks.h"

#include <utility>
#include <vector>

namespace torch_distinput {

NodePtr without_shard_marks(const NodePtr& node) {
  std::vector<NodePtr> inputs = node->inputs();
  bool changed = false;
  for (NodePtr& input : inputs) {
    NodePtr without = without_shard_marks(input);
    changed = changed || without != input;
    input = std::move(without);
  }
  if (node->traits().sharding.hint) return inputs.at(0);
  return changed ? node->with_inputs(std::move(inputs)) : node;
}

}  // namespace torch_distinput
