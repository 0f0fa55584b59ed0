// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/explain_lanes.h"

#include <cstddef>
#include <iomanip>
#include <set>
#include <sstream>
#include <utility>

#include "distribute/splitting/step_schedule.h"
#include "execution/execution_context.h"
#include "execution/open.h"

namespace torch_distinput {
namespace {

/// Steps from which it is known where the parts meet.
constexpr int kSteps = 64;

/// The processes that take rows of a lane, on average of all lanes.
double readers_of_lanes(const Distribution& distribution, PlanRows& rows) {
  std::set<double> lanes;
  std::set<std::pair<double, std::size_t>> readers;
  StepSchedule schedule(distribution.rules(), {});
  for (int i = 0; i < kSteps; ++i) {
    const auto step = schedule.next(rows);
    if (!step) break;
    for (std::size_t part = 0; part < step->parts.size(); ++part) {
      const auto rank = part / static_cast<std::size_t>(distribution.assignment.replicas.per_rank);
      const auto& segments = step->parts[part].segments;
      for (const double lane : rows.costs({segments.data(), segments.size()})) {
        lanes.insert(lane);
        readers.emplace(lane, rank);
      }
    }
  }
  return lanes.empty() ? 0 : static_cast<double>(readers.size()) / static_cast<double>(lanes.size());
}

}  // namespace

std::string lanes_text(const Distribution& distribution, const std::shared_ptr<PlanRows>& rows) {
  const RowAssignment& assignment = distribution.assignment;
  if (!distribution.deals_by_lane() || !rows) return "";
  const auto context =
      epoch_context(make_execution_context(distribution.options), 0, 0, /*stream_only=*/false);
  const auto order = lane_order_of(*assignment.node, context);
  if (order == nullptr) return "";
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << "lanes: " << order->lanes() << "; a block is read by "
       << readers_of_lanes(distribution, *rows) << " of the " << assignment.replicas.ranks
       << " processes on average, of many nodes by about 1 + (nodes - 1)/" << order->lanes();
  if (assignment.batch > 0) {
    text << "; where blocks have one class each, the variance of class counts in a batch is "
         << order->class_variance(assignment.batch) << " times that after a full shuffle";
  }
  text << "\n";
  return text.str();
}

}  // namespace torch_distinput
