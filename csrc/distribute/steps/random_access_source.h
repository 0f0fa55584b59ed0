// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distribute/steps/plan_rows.h"
#include "distribute/steps/step_source.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// When steps begin to be built: when the source is opened, or at the first `next`. Before that, what comes
/// over a network is asked for.
enum class Building { kAtOnce, kOnRequest };

/// A source that fetches only the rows of each step, for pipelines whose plan knows its rows. Steps are
/// planned in order, built out of order by many threads and returned in order. A plan that runs users' code
/// has threads of its own; with `per_replica_buffer_size` 0, `next` builds each step.
std::unique_ptr<StepSource> open_random_access_source(const DistributionPtr& distribution,
                                                      std::shared_ptr<PlanRows> rows,
                                                      const IterContext& context, const StepPosition& start,
                                                      const DeviceTransferPtr& transfer,
                                                      Building building = Building::kAtOnce);

/// `start` as a position in `rows`; located by the number of rows before it if the batches differ from those
/// of the run that saved it. Throws c10::ValueError if an endless plan has no such position.
StepPosition fit_position(StepPosition start, const PlanRows& rows);

}  // namespace torch_distinput
