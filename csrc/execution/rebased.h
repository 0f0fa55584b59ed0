// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// An op that makes batches of rows, and could make them of scalars in the places of the rows.
class StacksRows {
 public:
  virtual ~StacksRows() = default;
  /// The batches that it would make of `rows`, which have scalars in the place of the rows of its input.
  virtual NodePtr stacked(NodePtr rows) const = 0;
};

/// Whether the rows of `node` are those of its input, batched, chosen or changed one for one.
bool passes_rows(const Node& node);

/// The pipeline `node` with scalars in the place of its rows. `replacement` returns the scalars that stand
/// in the place of an op, or null where those of its input do; it is asked from `node` downwards. Ops that
/// choose rows choose among the scalars, and those that change them are left out. The plan, under the same
/// context, has the same positions. Returns null where an op that is not replaced does not pass rows.
NodePtr rebased(const NodePtr& node, const std::function<NodePtr(const Node& op)>& replacement);

}  // namespace torch_distinput
