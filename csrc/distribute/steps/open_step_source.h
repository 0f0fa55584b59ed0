// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/device_transfer.h"
#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The row counts of this epoch's plan; null if there is no plan or it does not know them.
std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context);

/// Opens the random-access path if the pipeline has a plan that knows its rows, else the sequential path; one
/// source for each pipeline if replicas have their own. `transfer` begins to copy parts when they are built;
/// null: they stay on the host. Throws c10::ValueError for a damaged `start`, and errors of the pipeline's
/// ops.
std::unique_ptr<StepSource> open_step_source(const DistributionPtr& distribution, const IterContext& context,
                                             const Start& start, const DeviceTransferPtr& transfer,
                                             Reading reading = Reading::kAhead);

}  // namespace torch_distinput
