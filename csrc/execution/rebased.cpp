// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/rebased.h"

#include <memory>
#include <utility>

#include "execution/execution_context.h"
#include "execution/plan_iterator.h"
#include "execution/unary_node.h"

namespace torch_distinput {
namespace {

/// Stands in the place of an op that makes one element of each: what is below it keeps its place in the
/// graph.
class EachNode final : public UnaryNode {
 public:
  using UnaryNode::UnaryNode;
  std::string_view name() const override { return "each"; }
  std::string describe() const override { return "each()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<EachNode>(std::move(inputs.at(0)));
  }
  Traits traits() const override { return {.rows = {.follows = Follows::kEach}}; }
  PlanPtr plan(const IterContext& context) const override { return input().plan(context.input(0)); }
  IteratorPtr iterate(const IterContext& context) const override {
    return make_plan_iterator(plan(context), context.execution);
  }
};

}  // namespace

bool passes_rows(const Node& node) {
  return node.traits().rows.follows != Follows::kNot || dynamic_cast<const StacksRows*>(&node) != nullptr;
}

NodePtr rebased(const NodePtr& node, const std::function<NodePtr(const Node& op)>& replacement) {
  if (NodePtr scalars = replacement(*node)) return scalars;
  if (!passes_rows(*node)) return nullptr;
  NodePtr input = rebased(node->inputs().front(), replacement);
  if (input == nullptr) return nullptr;
  if (const auto* const batches = dynamic_cast<const StacksRows*>(node.get()))
    return batches->stacked(std::move(input));
  if (node->traits().rows.follows == Follows::kEach) return std::make_shared<EachNode>(std::move(input));
  return node->with_inputs({std::move(input)});
}

}  // namespace torch_distinput
