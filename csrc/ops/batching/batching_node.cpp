// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/batching_node.h"

#include <memory>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/counts_steps.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "ops/batching/batch_count.h"

namespace torch_distinput::ops {

BatchingNode::BatchingNode(NodePtr input, std::string_view name, BatchSchedule sizes, bool drop_remainder)
    : UnaryNode(with_steps(std::move(input), sizes, name)),
      name_(name),
      sizes_(std::make_shared<const BatchSchedule>(std::move(sizes))),
      drop_remainder_(drop_remainder) {}

std::string BatchingNode::describe() const {
  return c10::str(name_, "(batch_size=", sizes_->describe(), ", ", arguments(), ")");
}

std::string BatchingNode::identity() const {
  return sizes_->is_constant() ? c10::str(name_, "(", arguments(), ")") : describe();
}

std::optional<std::int64_t> BatchingNode::batch_size() const {
  return sizes_->is_constant() ? std::optional(sizes_->size(0)) : std::nullopt;
}

BatchSchedulePtr BatchingNode::changing_sizes() const { return sizes_->is_constant() ? nullptr : sizes_; }

NodePtr BatchingNode::stacked(NodePtr rows) const {
  return stack_batches(std::move(rows), *sizes_, drop_remainder_);
}

SpecPtr BatchingNode::spec() const {
  const SpecPtr row = input().spec();
  return row == nullptr ? nullptr : spec_of_batches(*row);
}

SpecPtr BatchingNode::spec_of_batches(const ElementSpec& row) const {
  return std::make_shared<const ElementSpec>(
      batch_spec(row, drop_remainder_ ? batch_size().value_or(kUnknownDim) : kUnknownDim));
}

std::int64_t BatchingNode::cardinality() const {
  return count_batches(input().cardinality(), *sizes_, drop_remainder_);
}

PlanPtr BatchingNode::plan(const IterContext& context) const {
  PlanPtr rows = input().plan(context.input(0));
  if (rows == nullptr) return nullptr;
  return batch_plan(std::move(rows), batching(context));
}

IteratorPtr BatchingNode::iterate(const IterContext& context) const {
  return batch_iterator(open_iterator(input_ptr(), context.input(0)), batching(context));
}

std::string BatchingNode::arguments() const {
  return std::string("drop_remainder=") + (drop_remainder_ ? "True" : "False") + more_arguments();
}

Batching BatchingNode::batching(const IterContext& context) const {
  return {*sizes_, drop_remainder_, join_rows(), context.execution->pool};
}

}  // namespace torch_distinput::ops
