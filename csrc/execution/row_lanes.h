// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/lane_order.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// An op that orders its rows by lanes.
class OrdersByLanes {
 public:
  virtual ~OrdersByLanes() = default;
  /// The lane of each element in its place, a float64 scalar.
  virtual NodePtr lanes() const = 0;
  /// The order of the elements; null where the input has no random access. `context`: that of the op. May
  /// read what tells the blocks.
  virtual std::shared_ptr<const LaneOrder> lane_order(const IterContext& context) const = 0;
};

/// The pipeline `rows`, rows or batches of them, with the lane of each row in its place, a float64 scalar.
/// Its plan, under the same context, has the same positions. Null where no op orders the rows by lanes, or
/// one after it mixes or makes rows.
NodePtr lanes_in_place_of(const NodePtr& rows);

/// The order of the rows of `rows` by lanes, under the context of its iterators. REQUIRES:
/// `lanes_in_place_of` is not null.
std::shared_ptr<const LaneOrder> lane_order_of(const Node& rows, const IterContext& context);

}  // namespace torch_distinput
