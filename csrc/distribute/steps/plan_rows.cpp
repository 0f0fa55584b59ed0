// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/plan_rows.h"

#include <algorithm>

#include "execution/row_costs.h"

namespace torch_distinput {

std::shared_ptr<PlanRows> PlanRows::make(PlanPtr plan, bool unbatched, PlanPtr costs) {
  if (!plan) return nullptr;
  const bool known = unbatched || plan->size() == 0 || plan->rows(0) != kUnknownRows;
  return known ? std::make_shared<PlanRows>(std::move(plan), unbatched, std::move(costs)) : nullptr;
}

std::optional<std::int64_t> PlanRows::rows(std::int64_t element) {
  if (element >= size_) return std::nullopt;
  return unbatched_ ? 1 : plan_->rows(element);
}

std::vector<double> PlanRows::costs(std::span<const Segment> segments) {
  return take_costs(*costs_, segments);
}

std::int64_t PlanRows::rows_before(std::int64_t element) const {
  return unbatched_ ? element : plan_->rows_before(element);
}

SplitPosition PlanRows::locate(std::int64_t row) const {
  // Invariant: rows_before(low) <= row, and the element that has the row is below high.
  std::int64_t low = 0;
  std::int64_t high = size_;
  if (size_ == kEndless) {
    for (high = 1; rows_before(high) <= row;) high *= 2;
  }
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (rows_before(middle + 1) <= row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {.element = low, .row = low == size_ ? 0 : row - rows_before(low)};
}

namespace {

/// Rounds of parts before the end of the data; the last one may be short.
std::int64_t count_rounds(const Splitter& splitter, const PlanRows& rows) {
  const auto round = splitter.round_rows();
  return round ? rows.rows_before(rows.size()) / *round : rows.size();
}

/// The number of rounds in a step, at least 1: a round may have fewer parts than a step.
std::int64_t rounds_a_step(const ScheduleRules& rules) {
  return std::max<std::int64_t>(rules.width / rules.splitter->parts(), 1);
}

StepPosition round_start(const ScheduleRules& rules, const PlanRows& rows, std::int64_t round) {
  const auto round_rows = rules.splitter->round_rows();
  StepPosition start{.step = round * rules.splitter->parts() / rules.width};
  start.split = round_rows ? rows.locate(round * *round_rows) : SplitPosition{.element = round};
  start.row = round_rows ? round * *round_rows : rows.rows_before(round);
  return start;
}

/// The end of an epoch.
struct End {
  std::int64_t steps = 0;
  std::optional<PlannedStep> last = {};
};

End find_end(const ScheduleRules& rules, PlanRows& rows, bool only_complete) {
  // A step that is found near the end proves that all steps before it are delivered, except for a tail rule
  // that may end the epoch anywhere, or one that may join the first step found to the one before it.
  const std::int64_t proof = rules.tail == Tail::kMerge ? 2 : 1;
  std::int64_t first = count_rounds(*rules.splitter, rows);
  for (std::int64_t back = 2;; back *= 8) {
    first = rules.tail == Tail::kUntilFirst ? 0 : std::max<std::int64_t>(first - back, 0);
    first -= first % rounds_a_step(rules);
    const StepPosition start = round_start(rules, rows, first);
    StepSchedule schedule(rules, start);
    End end;
    while (auto step = schedule.next(rows)) {
      end.steps += step->complete || !only_complete ? 1 : 0;
      end.last = std::move(step);
    }
    if (end.steps < proof && first > 0) continue;
    end.steps += start.step;
    return end;
  }
}

/// The rules for steps of which only the numbers of rows are asked for.
ScheduleRules unbalanced(ScheduleRules rules) {
  rules.balance_window = 0;
  return rules;
}

bool lacks_rows(const std::optional<PlannedStep>& step) {
  return step && std::find(step->valid.begin(), step->valid.end(), 0) != step->valid.end();
}

}  // namespace

std::optional<std::int64_t> count_steps(const ScheduleRules& rules, PlanRows& rows, bool only_complete) {
  if (rows.size() == kEndless || rules.endless) return std::nullopt;
  return find_end(unbalanced(rules), rows, only_complete).steps;
}

std::optional<PlannedStep> find_step(const ScheduleRules& rules, PlanRows& rows, std::int64_t step) {
  std::int64_t round = step * rules.width / rules.splitter->parts();
  round -= round % rounds_a_step(rules);
  const StepPosition start = round_start(rules, rows, round);
  StepSchedule schedule(rules, start);
  auto found = schedule.next(rows);
  for (std::int64_t at = start.step; found && at < step; ++at) found = schedule.next(rows);
  return found;
}

StepPosition position_after(const ScheduleRules& rules, PlanRows& rows, std::int64_t step) {
  return step == 0 ? StepPosition{} : find_step(unbalanced(rules), rows, step - 1).value().after;
}

std::optional<PlannedStep> last_step(const ScheduleRules& rules, PlanRows& rows) {
  if (rows.size() == kEndless || rules.endless) return std::nullopt;
  return find_end(rules, rows, /*only_complete=*/false).last;
}

std::optional<std::int64_t> rows_to_merge(ScheduleRules rules, PlanRows& rows) {
  const auto last = last_step(rules, rows);
  if (!lacks_rows(last)) return std::nullopt;
  rules.tail = Tail::kMerge;
  if (lacks_rows(last_step(rules, rows))) return std::nullopt;
  return last->global_valid;
}

}  // namespace torch_distinput
