// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/plan_rows.h"
#include "distribute/steps/step_source.h"

namespace torch_distinput {

/// A source of the same steps as `open_random_access_source` from `start` on, with parts that are `None`: it
/// reads no rows. Throws c10::ValueError if an endless plan has no such position.
std::unique_ptr<StepSource> open_rowless_source(const DistributionPtr& distribution,
                                                std::shared_ptr<PlanRows> rows, const StepPosition& start);

}  // namespace torch_distinput
