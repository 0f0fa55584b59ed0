// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/draws_files.h"

#include <algorithm>
#include <vector>

#include "execution/any_op.h"

namespace torch_distinput {
namespace {

bool draws_order(const Node& names) {
  return any_op(names, [](const Node& op) {
    const OrderTraits order = op.traits().order;
    return (order.random || order.mixes) && !order.fixed;
  });
}

}  // namespace

bool draws_files(const Node& node) {
  const Traits traits = node.traits();
  if (traits.order.keeps) return false;
  const std::vector<NodePtr> inputs = node.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const NodePtr& input) {
    return traits.sharding.reader ? draws_order(*input) : draws_files(*input);
  });
}

}  // namespace torch_distinput
