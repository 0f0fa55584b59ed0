// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/planned_steps.h"

namespace torch_distinput {

std::optional<PlannedStep> PlannedSteps::take(std::int64_t index) {
  const std::lock_guard lock(mutex_);
  while (first_ + std::ssize(slots_) <= index) slots_.push_back({schedule_.next(*rows_)});
  Slot& slot = slots_[static_cast<std::size_t>(index - first_)];
  slot.taken = true;
  auto step = std::move(slot.step);
  for (; !slots_.empty() && slots_.front().taken; ++first_) slots_.pop_front();
  return step;
}

}  // namespace torch_distinput
