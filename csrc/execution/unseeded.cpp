// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/unseeded.h"

#include "execution/any_op.h"

namespace torch_distinput {

bool unseeded(const Node& node) {
  return any_op(node, [](const Node& op) { return op.traits().order.unseeded; });
}

}  // namespace torch_distinput
