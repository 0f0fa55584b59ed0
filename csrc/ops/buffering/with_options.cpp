// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

/// As tf.data's with_options: elements, rows and state are the input's. The input gets this node's own
/// context, so that the op changes neither positions nor random keys.
class OptionsNode final : public UnaryNode {
 public:
  OptionsNode(NodePtr input, Options options) : UnaryNode(std::move(input)), options_(options) {}

  std::string_view name() const override { return "with_options"; }
  std::string describe() const override { return "with_options(" + options_.str() + ")"; }
  std::string identity() const override { return ""; }
  Traits traits() const override {
    return {.sharding = {.pass_through = true}, .rows = {.row_wise = true, .follows = Follows::kSame}};
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return with_options(std::move(inputs.at(0)), options_);
  }
  Options options() const override { return input().options().merged(options_); }
  PlanPtr plan(const IterContext& context) const override { return input().plan(context); }
  IteratorPtr iterate(const IterContext& context) const override {
    return open_iterator(input_ptr(), context);
  }

 private:
  Options options_;
};

}  // namespace

NodePtr with_options(NodePtr input, Options options) {
  options.validate();
  return std::make_shared<OptionsNode>(std::move(input), options);
}

}  // namespace torch_distinput::ops
