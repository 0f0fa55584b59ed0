// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/reads_whole.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/element_reader.h"
#include "execution/execution_context.h"
#include "execution/skip_budget.h"

namespace torch_distinput {
namespace {

/// Returns `context` with an execution context that raises errors instead of skipping rows.
IterContext raising(const IterContext& context) {
  IterContext result = context;
  auto execution = std::make_shared<ExecutionContext>(*context.execution);
  execution->options.skip.reset();
  result.execution = std::move(execution);
  return result;
}

bool only_drops_failures(const Node& node, const IterContext& context) {
  if (node.plan(context) != nullptr) return true;
  if (!node.traits().rows.fallible && !node.identity().empty()) return false;
  const std::vector<NodePtr> inputs = node.inputs();
  return inputs.empty() || (inputs.size() == 1 && only_drops_failures(*inputs.front(), context.input(0)));
}

/// Returns the node nearest to the source that has no plan.
const Node& first_without_plan(const Node& node, const IterContext& context) {
  const std::vector<NodePtr> inputs = node.inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const IterContext below = context.input(i);
    if (inputs[i]->plan(below) == nullptr) return first_without_plan(*inputs[i], below);
  }
  return node;
}

class SkippingIterator final : public Iterator {
 public:
  SkippingIterator(PlanPtr plan, const IterContext& context, std::string_view op, std::string below)
      : elements_(std::move(plan), context.execution->options), budget_(context, std::move(below)), op_(op) {}

  std::optional<Element> next() override {
    while (position_ < elements_.size()) {
      try {
        Element element = elements_.fetch(position_);
        ++position_;
        budget_.pass();
        return element;
      } catch (...) {
        budget_.fail();
        ++position_;
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override { return State().set("position", position_).set("skip", budget_.save()); }

  void load(const State& state) override {
    const StateReader saved(state, op_);
    position_ = saved.count("position", elements_.size());
    budget_.load(saved.at("skip"));
  }

 private:
  ElementReader elements_;
  SkipBudget budget_;
  std::string op_;
  std::int64_t position_ = 0;
};

}  // namespace

PlanPtr plan_with_failures(const Node& input, const IterContext& input_context) {
  return only_drops_failures(input, input_context) ? input.plan(raising(input_context)) : nullptr;
}

IteratorPtr skipping_iterator(PlanPtr plan, const IterContext& context, std::string_view op,
                              std::string below) {
  return std::make_unique<SkippingIterator>(std::move(plan), context, op, std::move(below));
}

void refuse_stream(std::string_view op, const Node& input, const IterContext& input_context,
                   std::string_view advice) {
  C10_THROW_ERROR(ValueError, c10::str(op, " needs random access, but `",
                                       first_without_plan(input, input_context).describe(),
                                       "` can only be read in order; ", advice, "."));
}

}  // namespace torch_distinput
