// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/step_rows.h"

#include <c10/util/Exception.h>

#include "api/input_options.h"
#include "distribute/steps/plan_rows.h"
#include "execution/execution_context.h"
#include "execution/open.h"

namespace torch_distinput {
namespace {

void check_in_range(const char* name, std::int64_t value, std::int64_t size) {
  TORCH_CHECK_INDEX(value >= 0 && value < size, "StepRows: `", name, "` must be at least 0 and less than ",
                    size, ", but is ", value, ".");
}

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

std::shared_ptr<PlanRows> rows_of(const RowAssignment& assignment) {
  const auto context = epoch_context(make_execution_context({}), 0, 0, /*stream_only=*/false);
  auto rows = PlanRows::make(assignment.node->plan(context), assignment.unbatched);
  TORCH_CHECK_VALUE(rows && rows->size() != kEndless,
                    "StepRows: the rows of the dataset must be known before they are read, and must end.");
  return rows;
}

}  // namespace

struct StepRows::Impl {
  Impl(const Dataset& batches, std::int64_t num_replicas, const InputOptions& options)
      : assignment(assign(batches, num_replicas, options)),
        rules{assignment.splitter, assignment.width, options.tail, assignment.batch, assignment.schedule},
        plan_rows(rows_of(assignment)),
        num_steps(count_steps(rules, *plan_rows, /*only_complete=*/false).value_or(0)) {}

  PlannedStep step(std::int64_t number) const {
    check_in_range("step", number, num_steps);
    return find_step(rules, *plan_rows, number).value();
  }

  RowAssignment assignment;
  ScheduleRules rules;
  std::shared_ptr<PlanRows> plan_rows;
  std::int64_t num_steps;
};

StepRows::StepRows(const Dataset& batches, std::int64_t num_replicas, const InputOptions& options)
    : impl_(std::make_shared<const Impl>(batches, num_replicas, options)) {}

std::int64_t StepRows::num_steps() const { return impl_->num_steps; }

std::vector<std::int64_t> StepRows::rows(std::int64_t step, std::int64_t replica) const {
  check_in_range("replica", replica, impl_->assignment.replicas.all());
  const PlannedStep planned = impl_->step(step);
  const auto place = static_cast<std::size_t>(impl_->assignment.place_of(replica));
  std::vector<std::int64_t> rows;
  for (const Segment& segment : planned.parts[place].segments) {
    const std::int64_t before = impl_->plan_rows->rows_before(segment.element);
    for (std::int64_t row = segment.begin; row < segment.end; ++row) rows.push_back(before + row);
  }
  return rows;
}

std::int64_t StepRows::global_valid(std::int64_t step) const { return impl_->step(step).global_valid; }

}  // namespace torch_distinput
