// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/node.h"

namespace torch_distinput {

Iterator::~Iterator() = default;
Node::~Node() = default;

Options Node::options() const {
  Options merged;
  for (const auto& input : inputs()) merged = merged.merged(input->options());
  return merged;
}

PlanPtr Node::plan(const IterContext&) const { return nullptr; }

}  // namespace torch_distinput
