// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/plan_rows.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Fetches just the rows of each step, for pipelines whose plan knows its rows: steps are planned in order,
/// built out of order by many threads and handed out in order. A plan that runs users' code is built on
/// threads of its own; with `per_replica_buffer_size` 0 in `next`.
std::unique_ptr<StepSource> open_random_access_source(const DistributionPtr& distribution,
                                                      std::shared_ptr<PlanRows> rows,
                                                      const IterContext& context, const StepPosition& start,
                                                      const DeviceTransferPtr& transfer);

/// `start` as a place in `rows`: by the number of rows before it where the batches are not those that it
/// was saved with.
StepPosition fit_position(StepPosition start, const PlanRows& rows);

}  // namespace torch_distinput
