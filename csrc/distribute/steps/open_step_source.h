// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/device_transfer.h"
#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The rows of this epoch by plan; null where there is no plan or it does not know them.
std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context);

/// Opens the random-access path where the pipeline has a plan that knows its rows, else the sequential path.
/// `transfer` moves parts as soon as they are there; null: they stay on the host.
std::unique_ptr<StepSource> open_step_source(const DistributionPtr& distribution, const IterContext& context,
                                             const Start& start, const DeviceTransferPtr& transfer,
                                             Reading reading = Reading::kAhead);

}  // namespace torch_distinput
