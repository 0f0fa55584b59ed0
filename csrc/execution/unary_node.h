// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Base of the ops with one input. Unless overridden, elements have the input's type, number and batch size,
/// and sharding by file looks through the op.
class UnaryNode : public Node {
 public:
  explicit UnaryNode(NodePtr input) : input_(std::move(input)) {}

  std::vector<NodePtr> inputs() const override { return {input_}; }
  SpecPtr spec() const override { return input_->spec(); }
  std::int64_t cardinality() const override { return input_->cardinality(); }
  std::optional<std::int64_t> batch_size() const override { return input_->batch_size(); }
  Traits traits() const override { return {.sharding = {.pass_through = true}}; }

 protected:
  const Node& input() const { return *input_; }
  const NodePtr& input_ptr() const { return input_; }

 private:
  NodePtr input_;
};

}  // namespace torch_distinput
