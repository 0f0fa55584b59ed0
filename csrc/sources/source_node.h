// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The base of nodes without inputs.
class SourceNode : public Node {
 public:
  std::vector<NodePtr> inputs() const final { return {}; }
  NodePtr with_inputs(std::vector<NodePtr>) const final { return shared_from_this(); }
};

/// Returns an iterator that fetches the elements of `plan` one by one in the caller's thread. It holds the
/// plan.
IteratorPtr iterate_plan(PlanPtr plan);

}  // namespace torch_distinput
