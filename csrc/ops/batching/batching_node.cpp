// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/batching_node.h"

#include <memory>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/open.h"
#include "ops/batching/batch_count.h"

namespace torch_distinput::ops {

BatchingNode::BatchingNode(NodePtr input, std::string_view name, std::int64_t batch_size, bool drop_remainder)
    : UnaryNode(std::move(input)), name_(name), batch_size_(batch_size), drop_remainder_(drop_remainder) {
  TORCH_CHECK_VALUE(batch_size >= 1, name, ": `batch_size` must be at least 1, but is ", batch_size, ".");
}

std::string BatchingNode::describe() const {
  return c10::str(name_, "(batch_size=", batch_size_, ", ", arguments(), ")");
}

std::string BatchingNode::identity() const { return c10::str(name_, "(", arguments(), ")"); }

SpecPtr BatchingNode::spec() const {
  const SpecPtr row = input().spec();
  return row == nullptr ? nullptr : spec_of_batches(*row);
}

SpecPtr BatchingNode::spec_of_batches(const ElementSpec& row) const {
  return std::make_shared<const ElementSpec>(batch_spec(row, drop_remainder_ ? batch_size_ : kUnknownDim));
}

std::int64_t BatchingNode::cardinality() const {
  return count_batches(input().cardinality(), batch_size_, drop_remainder_);
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
  return {batch_size_, drop_remainder_, join_rows(), context.execution->pool};
}

}  // namespace torch_distinput::ops
