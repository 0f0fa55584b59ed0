// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/open_step_source.h"

#include <utility>
#include <vector>

#include "distribute/steps/pipelines_source.h"
#include "distribute/steps/random_access_source.h"
#include "distribute/steps/sequential_source.h"

namespace torch_distinput {
namespace {

/// A source for each local replica.
std::vector<std::unique_ptr<StepSource>> open_pipelines(const DistributionPtr& distribution,
                                                        const IterContext& context, const Start& start,
                                                        const DeviceTransferPtr& transfer, Reading reading) {
  const std::size_t count = distribution->pipelines.size();
  if (count > 1) reading = Reading::kAhead;
  std::vector<std::unique_ptr<StepSource>> sources;
  for (std::size_t i = 0; i < count; ++i) {
    IterContext own = context;
    own.stream = i;
    const Start at = i < start.pipelines.size() ? start.pipelines[i] : Start{};
    sources.push_back(open_step_source(distribution->pipelines[i], own, at,
                                       transfer ? transfer->only(i) : nullptr, reading));
  }
  return sources;
}

}  // namespace

std::unique_ptr<StepSource> open_step_source(const DistributionPtr& distribution, const IterContext& context,
                                             const Start& start, const DeviceTransferPtr& transfer,
                                             Reading reading) {
  if (!distribution->pipelines.empty())
    return join_pipelines(distribution, start,
                          open_pipelines(distribution, context, start, transfer, reading));
  if (auto rows = plan_rows(*distribution, context)) {
    return open_random_access_source(distribution, std::move(rows), context, start.position, transfer);
  }
  return open_sequential_source(distribution, context, start, transfer, reading);
}

std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context) {
  if (context.stream_only) return nullptr;
  return PlanRows::make(distribution.assignment.node->plan(context), distribution.assignment.unbatched);
}

}  // namespace torch_distinput
