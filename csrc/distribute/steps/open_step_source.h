// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/device_transfer.h"
#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The row counts of this epoch's plan; null if there is no plan or it does not know them, or does not know
/// the costs that rows are exchanged by.
std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context);

/// As `plan_rows`, where all processes take their steps of one stream by arithmetic. Throws c10::ValueError,
/// naming the op, where only reading tells the rows.
std::shared_ptr<PlanRows> rows_without_reading(const Distribution& distribution, const IterContext& context);

/// Opens the random-access path if the pipeline has a plan that knows its rows, else the sequential path; one
/// source for each pipeline if replicas have their own. `transfer` begins to copy parts when they are built;
/// null: they stay on the host. Throws c10::ValueError for a damaged `start`, and errors of the pipeline's
/// ops.
std::unique_ptr<StepSource> open_step_source(const DistributionPtr& distribution, const IterContext& context,
                                             const Start& start, const DeviceTransferPtr& transfer,
                                             Reading reading = Reading::kAhead);

/// As `open_step_source`, long before the first step is asked for: begins to read what comes over a network,
/// by position, and returns null where nothing does. Users' code does not run, and no copy to a device
/// begins, before the first `next`.
std::unique_ptr<StepSource> open_early(const DistributionPtr& distribution, const IterContext& context,
                                       const Start& start, const DeviceTransferPtr& transfer);

}  // namespace torch_distinput
