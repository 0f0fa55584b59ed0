// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/step_rows.h"

#include <mutex>
#include <optional>

#include <c10/util/Exception.h>

#include "api/check_in_range.h"
#include "api/input_options.h"
#include "distribute/splitting/deal_by_lane.h"
#include "distribute/steps/plan_rows.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/row_lanes.h"

namespace torch_distinput {
namespace {

RowAssignment assign(const Dataset& batches, std::int64_t num_replicas, const InputOptions& options) {
  TORCH_CHECK_VALUE(num_replicas >= 1, "StepRows: `num_replicas` must be at least 1, but is ", num_replicas,
                    ".");
  const Replicas replicas{.ranks = num_replicas};
  check_input_options(options, replicas);
  RowAssignment assignment = assign_rows(batches.node(), AutoShardPolicy::kData, replicas, options.split,
                                         options.weights.value_or(std::vector<double>{}));
  check_schedule(assignment, options.split, options.tail);
  return assignment;
}

std::shared_ptr<PlanRows> rows_of(const RowAssignment& assignment, const InputOptions& options) {
  const auto balance = balance_of(options, assignment, /*skips=*/false);
  TORCH_CHECK_VALUE(!balance || balance->known(),
                    "StepRows: `balance` must be a tensor, so that costs are known before rows are read.");
  const auto context = epoch_context(make_execution_context({}), 0, 0, /*stream_only=*/false);
  check_lanes(options, assignment, /*skips=*/false);
  NodePtr costs = balance ? balance->in_place_of(assignment.node) : nullptr;
  if (options.split == Split::kLanes) costs = lanes_in_place_of(assignment.node);
  auto rows = PlanRows::make(assignment.node->plan(context), assignment.unbatched,
                             costs ? costs->plan(context) : nullptr);
  TORCH_CHECK_VALUE(rows && rows->size() != kEndless,
                    "StepRows: the rows of the dataset must be known before they are read, and must end.");
  return rows;
}

}  // namespace

struct StepRows::Impl {
  Impl(const Dataset& batches, std::int64_t num_replicas, const InputOptions& options)
      : assignment(assign(batches, num_replicas, options)),
        rules{
            .splitter = assignment.splitter,
            .width = assignment.width,
            .tail = options.tail,
            .batch = assignment.batch,
            .schedule = assignment.schedule,
            .balance_window = options.balance || options.split == Split::kLanes ? options.balance_window : 0,
            .deal = options.split == Split::kLanes ? deal_by_lane : deal_by_cost},
        plan_rows(rows_of(assignment, options)),
        num_steps(count_steps(rules, *plan_rows, /*only_complete=*/false).value_or(0)) {}

  std::shared_ptr<const PlannedStep> step(std::int64_t number) const {
    check_in_range("StepRows", "step", number, num_steps);
    const std::lock_guard lock(mutex);
    if (planned != nullptr && planned->before.step == number) return planned;
    if (planned == nullptr || planned->after.step != number)
      schedule.emplace(rules, position_after(rules, *plan_rows, number));
    planned = std::make_shared<const PlannedStep>(schedule->next(*plan_rows).value());
    return planned;
  }

  RowAssignment assignment;
  ScheduleRules rules;
  std::shared_ptr<PlanRows> plan_rows;
  std::int64_t num_steps;
  mutable std::mutex mutex;
  mutable std::optional<StepSchedule> schedule = {};        ///< after `planned`
  mutable std::shared_ptr<const PlannedStep> planned = {};  ///< the step asked for last: one for all replicas
};

StepRows::StepRows(const Dataset& batches, std::int64_t num_replicas, const InputOptions& options)
    : impl_(std::make_shared<const Impl>(batches, num_replicas, options)) {}

std::int64_t StepRows::num_steps() const { return impl_->num_steps; }

std::vector<std::int64_t> StepRows::rows(std::int64_t step, std::int64_t replica) const {
  check_in_range("StepRows", "replica", replica, impl_->assignment.replicas.all());
  const auto planned = impl_->step(step);
  const auto place = static_cast<std::size_t>(impl_->assignment.place_of(replica));
  std::vector<std::int64_t> rows;
  for (const Segment& segment : planned->parts[place].segments) {
    const std::int64_t before = impl_->plan_rows->rows_before(segment.element);
    for (std::int64_t row = segment.begin; row < segment.end; ++row) rows.push_back(before + row);
  }
  return rows;
}

std::int64_t StepRows::global_valid(std::int64_t step) const { return impl_->step(step)->global_valid; }

}  // namespace torch_distinput
