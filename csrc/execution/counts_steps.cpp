// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/counts_steps.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/any_op.h"

namespace torch_distinput {
namespace {

const CountsSteps* lacking(const Node& node) {
  const auto* const counts = dynamic_cast<const CountsSteps*>(&node);
  return counts != nullptr && counts->lacks_steps() ? counts : nullptr;
}

/// Whether `node` has as many elements before a position as its input; a shuffle moves them.
bool keeps_number(const Node& node) {
  const Traits traits = node.traits();
  const bool shuffles = traits.order.random && traits.order.permutes;
  return shuffles || traits.rows.follows == Follows::kEach || traits.rows.follows == Follows::kSame;
}

}  // namespace

NodePtr with_steps(NodePtr node, const BatchSchedule& sizes, std::string_view op) {
  if (const CountsSteps* const counts = lacking(*node)) return counts->with_steps(sizes);
  if (!any_op(*node, [](const Node& below) { return lacking(below) != nullptr; })) return node;
  TORCH_CHECK_VALUE(
      keeps_number(*node), op, ": what is mixed by step has no steps here, because `", node->name(),
      "` lies between it and this op and changes the number of elements. Say how many elements a "
      "step has (`elements_per_step` of sample_from_datasets), or move that op.");
  std::vector<NodePtr> inputs = node->inputs();
  inputs.front() = with_steps(std::move(inputs.front()), sizes, op);
  return node->with_inputs(std::move(inputs));
}

}  // namespace torch_distinput
