// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "distribute/splitting/step_schedule.h"
#include "distribute/steps/plan_rows.h"

namespace torch_distinput {

/// The steps of a run by number, planned in order even if they are taken out of order. Safe from any thread.
class PlannedSteps {
 public:
  PlannedSteps(ScheduleRules rules, const StepPosition& start, std::shared_ptr<PlanRows> rows)
      : schedule_(std::move(rules), start), rows_(std::move(rows)) {}

  /// Step `index`, counted from the start of the run; nullopt after the end. Take each index once.
  std::optional<PlannedStep> take(std::int64_t index);

 private:
  struct Slot {
    std::optional<PlannedStep> step;
    bool taken = false;
  };

  std::mutex mutex_;
  StepSchedule schedule_;
  std::shared_ptr<PlanRows> rows_;
  std::deque<Slot> slots_;
  std::int64_t first_ = 0;  // index of the first slot
};

}  // namespace torch_distinput
