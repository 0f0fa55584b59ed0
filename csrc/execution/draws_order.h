// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execution/any_op.h"

namespace torch_distinput {

/// Whether the order of the elements of `node`, or which elements these are, is drawn anew in each epoch.
inline bool draws_order(const Node& node) {
  return any_op(node, [](const Node& op) {
    const OrderTraits order = op.traits().order;
    return (order.random && !order.fixed) || order.mixes;
  });
}

}  // namespace torch_distinput
