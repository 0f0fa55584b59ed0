// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/row_lanes.h"

#include "execution/rebased.h"

namespace torch_distinput {

NodePtr lanes_in_place_of(const NodePtr& rows) {
  return rebased(rows, [](const Node& op) {
    const auto* const ordered = dynamic_cast<const OrdersByLanes*>(&op);
    return ordered == nullptr ? nullptr : ordered->lanes();
  });
}

std::shared_ptr<const LaneOrder> lane_order_of(const Node& rows, const IterContext& context) {
  if (const auto* const ordered = dynamic_cast<const OrdersByLanes*>(&rows))
    return ordered->lane_order(context);
  return lane_order_of(*rows.inputs().front(), context.input(0));
}

}  // namespace torch_distinput
