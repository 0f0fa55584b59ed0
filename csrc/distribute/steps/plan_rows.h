// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "distribute/splitting/part.h"
#include "distribute/splitting/step_schedule.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The row counts of a plan that knows them without reading data. Immutable; safe from any thread.
class PlanRows final : public RowCounts {
 public:
  /// `unbatched`: each element counts as one row. `costs`: a plan with the cost of each row in its place;
  /// null where none are asked for. Returns null if `plan` is null or does not know its rows.
  static std::shared_ptr<PlanRows> make(PlanPtr plan, bool unbatched, PlanPtr costs = nullptr);

  PlanRows(PlanPtr plan, bool unbatched, PlanPtr costs = nullptr)
      : plan_(std::move(plan)), costs_(std::move(costs)), size_(plan_->size()), unbatched_(unbatched) {}

  std::optional<std::int64_t> rows(std::int64_t element) override;
  std::vector<double> costs(std::span<const Segment> segments) override;
  /// Rows of all elements before `element`.
  std::int64_t rows_before(std::int64_t element) const;
  /// Number of elements, or `kEndless`.
  std::int64_t size() const noexcept { return size_; }
  /// As given to `make`, as is `plan`.
  bool unbatched() const noexcept { return unbatched_; }
  const PlanPtr& plan() const noexcept { return plan_; }

  /// The position after the first `row` rows, between two parts.
  SplitPosition locate(std::int64_t row) const;

 private:
  PlanPtr plan_;
  PlanPtr costs_;  ///< null where none were given
  std::int64_t size_;
  bool unbatched_;
};

/// The number of steps of an epoch, without those that `StepSchedule` leaves out. `only_complete`: also
/// without those that lack a part. nullopt if the data never ends. Plans only the last steps if possible.
std::optional<std::int64_t> count_steps(const ScheduleRules& rules, PlanRows& rows, bool only_complete);

/// Step `step` of an epoch; nullopt where there is none, except under `kUntilFirst`, whose epoch may end
/// before any step. Plans only the steps near it if possible.
std::optional<PlannedStep> find_step(const ScheduleRules& rules, PlanRows& rows, std::int64_t step);

/// The position after the first `step` steps of an epoch. REQUIRES: the epoch has as many.
StepPosition position_after(const ScheduleRules& rules, PlanRows& rows, std::int64_t step);

/// The last step of the epoch; nullopt where there is none, or the data never ends.
std::optional<PlannedStep> last_step(const ScheduleRules& rules, PlanRows& rows);

/// The rows of the last step, if a replica gets none of them and `kMerge` would give every replica one.
/// REQUIRES: the rules have the tail `kZeroRows`.
std::optional<std::int64_t> rows_to_merge(ScheduleRules rules, PlanRows& rows);

}  // namespace torch_distinput
