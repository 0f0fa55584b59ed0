// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/open.h"

#include "execution/plan_iterator.h"

namespace torch_distinput {

OpenedIterator open_input(const NodePtr& node, const IterContext& context) {
  if (!context.stream_only) {
    if (PlanPtr plan = node->plan(context))
      return {make_plan_iterator(std::move(plan), context.execution), true};
  }
  return {node->iterate(context), false};
}

IteratorPtr open_iterator(const NodePtr& node, const IterContext& context) {
  return open_input(node, context).iterator;
}

}  // namespace torch_distinput
