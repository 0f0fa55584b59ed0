// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/other_functions.h"

#include <utility>
#include <vector>

#include "execution/calls_function.h"

namespace torch_distinput {

NodePtr with_other_functions(const NodePtr& node, const OtherFunction& other) {
  std::vector<NodePtr> inputs = node->inputs();
  bool changed = false;
  for (NodePtr& input : inputs) {
    NodePtr made = with_other_functions(input, other);
    changed = changed || made != input;
    input = std::move(made);
  }
  NodePtr result = changed ? node->with_inputs(std::move(inputs)) : node;
  const auto* op = dynamic_cast<const CallsFunction*>(result.get());
  if (op == nullptr) return result;
  FunctionPtr function = other(op->function(), op->call_options());
  return function == nullptr ? result : op->with_function(std::move(function));
}

}  // namespace torch_distinput
