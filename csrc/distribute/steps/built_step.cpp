// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/built_step.h"

#include "distribute/steps/missing_part.h"

namespace torch_distinput {

double loss_scale(const StepInfo& info, std::int64_t valid) {
  if (info.global_valid == 0) return 0.0;
  return static_cast<double>(info.num_replicas * valid) / static_cast<double>(info.global_valid);
}

namespace {

/// The order of rows that were dealt to parts one by one.
RowOrder dealt_order(const RowAssignment& assignment, const PlannedStep& planned) {
  RowOrder order;
  std::vector<std::int64_t> next(planned.parts.size());
  for (std::int64_t replica = 0; replica < std::ssize(planned.parts); ++replica) {
    const auto place = static_cast<std::size_t>(assignment.place_of(replica));
    next[place] = order.rows;
    order.rows += planned.parts[place].rows;
  }
  for (const std::int32_t part : planned.dealt) {
    const std::int64_t row = next[static_cast<std::size_t>(part)]++;
    if (!order.pieces.empty() && order.pieces.back().end == row) {
      ++order.pieces.back().end;
    } else {
      order.pieces.push_back({row, row + 1});
    }
  }
  return order;
}

/// nullopt if the parts, in the order of the replicas, are the rows in order.
std::optional<RowOrder> row_order(const RowAssignment& assignment, const PlannedStep& planned) {
  if (!planned.dealt.empty()) return dealt_order(assignment, planned);
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

/// `planned` with these parts.
BuiltStep step_of(const Distribution& distribution, const PlannedStep& planned, std::vector<Element> parts) {
  BuiltStep step;
  step.parts = std::move(parts);
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
  return step;
}

}  // namespace

BuiltStep build_step(const Distribution& distribution, const PlannedStep& planned,
                     const DeviceTransferPtr& transfer, const std::function<Element(const Part&)>& take) {
  std::vector<Element> parts;
  for (const std::int64_t index : distribution.assignment.local) {
    const Part& part = planned.parts[static_cast<std::size_t>(index)];
    parts.push_back(part.segments.empty() ? missing_part(distribution) : take(part));
  }
  BuiltStep step = step_of(distribution, planned, std::move(parts));
  if (transfer) transfer->begin(step.parts, step.staged);
  return step;
}

BuiltStep step_without_rows(const Distribution& distribution, const PlannedStep& planned) {
  return step_of(distribution, planned, std::vector<Element>(distribution.assignment.local.size()));
}

PerReplica deliver(const DeviceTransferPtr& transfer, BuiltStep& step, std::int64_t epoch, bool is_last) {
  std::vector<Element> values = transfer ? transfer->deliver(step.parts, step.staged) : std::move(step.parts);
  StepInfo info = std::move(step.info);
  info.epoch = epoch;
  info.is_last = is_last;
  return {std::move(values), std::move(info)};
}

}  // namespace torch_distinput
