// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Whether the elements of `node` are batches of rows.
inline bool yields_batches(const Node& node) {
  const std::optional<bool> batches = node.traits().rows.batches;
  if (batches) return *batches;
  const std::vector<NodePtr> inputs = node.inputs();
  return !inputs.empty() && yields_batches(*inputs.front());
}

}  // namespace torch_distinput
