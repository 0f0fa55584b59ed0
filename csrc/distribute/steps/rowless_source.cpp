// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/rowless_source.h"

#include <optional>
#include <utility>

#include "distribute/splitting/step_schedule.h"
#include "distribute/steps/random_access_source.h"

namespace torch_distinput {
namespace {

class RowlessStepSource final : public StepSource {
 public:
  RowlessStepSource(DistributionPtr distribution, std::shared_ptr<PlanRows> rows, const StepPosition& start)
      : distribution_(std::move(distribution)),
        rows_(std::move(rows)),
        schedule_(distribution_->rules(), start) {}

  std::optional<BuiltStep> next() override {
    const std::optional<PlannedStep> planned = schedule_.next(*rows_);
    if (!planned) return std::nullopt;
    return step_without_rows(*distribution_, *planned);
  }
  bool ready() const override { return true; }
  bool survives_interrupt() const override { return true; }

 private:
  DistributionPtr distribution_;
  std::shared_ptr<PlanRows> rows_;
  StepSchedule schedule_;
};

}  // namespace

std::unique_ptr<StepSource> open_rowless_source(const DistributionPtr& distribution,
                                                std::shared_ptr<PlanRows> rows, const StepPosition& start) {
  const StepPosition position = fit_position(start, *rows);
  return std::make_unique<RowlessStepSource>(distribution, std::move(rows), position);
}

}  // namespace torch_distinput
