// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/built_step.h"

#include "distribute/steps/missing_part.h"

namespace torch_distinput {

double loss_scale(const StepInfo& info, std::int64_t valid) {
  if (info.global_valid == 0) return 0.0;
  return static_cast<double>(info.num_replicas * valid) / static_cast<double>(info.global_valid);
}

namespace {

/// nullopt if the parts, in the order of the replicas, are the rows in order.
std::optional<RowOrder> row_order(const RowAssignment& assignment, const PlannedStep& planned) {
  bool trivial = !assignment.strided;
  for (std::size_t i = 0; i < planned.parts.size(); ++i) {
    trivial = trivial && planned.parts[i].rows == planned.valid[i];
  }
  if (trivial) return std::nullopt;
  RowOrder order;
  order.pieces.resize(planned.parts.size());
  for (std::int64_t replica = 0; replica < std::ssize(planned.parts); ++replica) {
    const auto place = static_cast<std::size_t>(assignment.place_of(replica));
    order.pieces[place] = {order.rows, order.rows + planned.valid[place]};
    order.rows += planned.parts[place].rows;
  }
  return order;
}

StepInfo info_of(const Distribution& distribution, const PlannedStep& planned) {
  StepInfo info;
  info.step = planned.before.step;
  info.row_start = planned.before.row;
  info.global_valid = planned.global_valid;
  info.num_replicas = distribution.assignment.replicas.all();
  for (const std::int64_t index : distribution.assignment.local) {
    const std::int64_t valid = planned.valid[static_cast<std::size_t>(index)];
    info.valid.push_back(valid);
    info.loss_scale.push_back(loss_scale(info, valid));
    info.has_value.push_back(planned.parts[static_cast<std::size_t>(index)].present);
  }
  info.order = row_order(distribution.assignment, planned);
  return info;
}

}  // namespace

BuiltStep build_step(const Distribution& distribution, const PlannedStep& planned,
                     const DeviceTransferPtr& transfer, const std::function<Element(const Part&)>& take) {
  BuiltStep step;
  for (const std::int64_t index : distribution.assignment.local) {
    const Part& part = planned.parts[static_cast<std::size_t>(index)];
    step.parts.push_back(part.segments.empty() ? missing_part(distribution) : take(part));
  }
  step.info = info_of(distribution, planned);
  step.batch = planned.batch;
  step.complete = planned.complete;
  step.last = planned.last;
  step.last_complete = planned.last_complete;
  for (const auto& present : planned.left_out) {
    auto& mine = step.left_out.emplace_back();
    for (const std::int64_t index : distribution.assignment.local)
      mine.push_back(present[static_cast<std::size_t>(index)]);
  }
  step.after.position = planned.after;
  if (transfer) transfer->begin(step.parts, step.staged);
  return step;
}

PerReplica deliver(const DeviceTransferPtr& transfer, BuiltStep& step, std::int64_t epoch, bool is_last) {
  std::vector<Element> values = transfer ? transfer->deliver(step.parts, step.staged) : std::move(step.parts);
  StepInfo info = std::move(step.info);
  info.epoch = epoch;
  info.is_last = is_last;
  return {std::move(values), std::move(info)};
}

}  // namespace torch_distinput
