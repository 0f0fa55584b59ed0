// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/function_runs.h"

#include <utility>

namespace torch_distinput {

FunctionRuns::FunctionRuns(FunctionPtr function)
    : function_(std::move(function)), elsewhere_(dynamic_cast<const ProcessFunction*>(function_.get())) {}

FunctionRuns::~FunctionRuns() {
  for (const std::weak_ptr<KeptProcesses>& run : runs_) {
    if (const auto kept = run.lock()) kept->drop(*elsewhere_);
  }
}

std::shared_ptr<FunctionProcesses> FunctionRuns::of(const ExecutionContext& execution) const {
  if (count() == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  std::erase_if(runs_, [&](const auto& run) { return run.expired() || run.lock() == execution.processes; });
  runs_.push_back(execution.processes);
  return execution.processes->of(*elsewhere_);
}

}  // namespace torch_distinput
