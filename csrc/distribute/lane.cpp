// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/lane.h"

#include "distribute/pipelines_lane.h"
#include "distribute/plan_lane.h"
#include "distribute/stream_lane.h"

namespace torch_distinput {

std::unique_ptr<Lane> open_lane(const DistributionPtr& distribution, const IterContext& context,
                                const Start& start, const ShippingPtr& shipping, Reading reading) {
  if (!distribution->pipelines.empty())
    return open_pipelines_lane(distribution, context, start, shipping, reading);
  if (auto rows = plan_rows(*distribution, context)) {
    return open_plan_lane(distribution, std::move(rows), context, start.position, shipping);
  }
  return open_stream_lane(distribution, context, start, shipping, reading);
}

std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context) {
  if (context.stream_only) return nullptr;
  return PlanRows::make(distribution.dealing.node->plan(context), distribution.dealing.unbatched);
}

}  // namespace torch_distinput
