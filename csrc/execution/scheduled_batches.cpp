// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/scheduled_batches.h"

#include <vector>

namespace torch_distinput {
namespace {

/// The op that made the elements of `node` batches of changing sizes; null if none did. `stops` says at which
/// ops after it the search ends.
template <class Stops>
BatchSchedulePtr find_schedule(const Node& node, const Stops& stops) {
  if (const auto* batches = dynamic_cast<const SchedulesBatches*>(&node)) return batches->changing_sizes();
  const std::vector<NodePtr> inputs = node.inputs();
  return inputs.empty() || stops(node) ? nullptr : find_schedule(*inputs.front(), stops);
}

}  // namespace

bool has_changing_batches(const Node& node) {
  return find_schedule(node, [](const Node& op) { return op.traits().rows.batches.has_value(); }) != nullptr;
}

BatchSchedulePtr schedule_of(const Node& node) {
  return find_schedule(node, [](const Node& op) { return !op.traits().rows.row_wise; });
}

}  // namespace torch_distinput
