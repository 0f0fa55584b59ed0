// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/open.h"

#include "ops/plan_iterator.h"

namespace torch_distinput {

Cursor open_cursor(const NodePtr& node, const IterContext& context) {
  if (!context.stream_only) {
    if (PlanPtr plan = node->plan(context))
      return {make_plan_iterator(std::move(plan), context.engine), true};
  }
  return {node->iterate(context), false};
}

IteratorPtr open_iterator(const NodePtr& node, const IterContext& context) {
  return open_cursor(node, context).iterator;
}

}  // namespace torch_distinput
