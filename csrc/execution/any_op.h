// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Whether `asks(op)` is true of an op of the pipeline up to `node`.
template <class Question>
bool any_op(const Node& node, const Question& asks) {
  if (asks(node)) return true;
  const std::vector<NodePtr> inputs = node.inputs();
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const NodePtr& input) { return any_op(*input, asks); });
}

/// Whether a row of the pipeline up to `node` may fail. If not, no op of it runs users' code or reads files.
inline bool may_fail(const Node& node) {
  return any_op(node, [](const Node& op) { return op.traits().rows.fallible; });
}

}  // namespace torch_distinput
