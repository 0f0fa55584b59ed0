// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/open_step_source.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "distribute/steps/pipelines_source.h"
#include "distribute/steps/random_access_source.h"
#include "distribute/steps/sequential_source.h"
#include "execution/without_plan.h"

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

std::unique_ptr<StepSource> open_early(const DistributionPtr& distribution, const IterContext& context,
                                       const Start& start, const DeviceTransferPtr& transfer) {
  if (!distribution->pipelines.empty()) return nullptr;
  auto rows = plan_rows(*distribution, context);
  if (!rows || !rows->plan()->traits().remote) return nullptr;
  const bool waits = transfer || rows->plan()->traits().runs_user_code;
  return open_random_access_source(distribution, std::move(rows), context, start.position, transfer,
                                   waits ? Building::kOnRequest : Building::kAtOnce);
}

std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context) {
  if (context.stream_only) return nullptr;
  const RowAssignment& assignment = distribution.assignment;
  if (distribution.balance && !distribution.balance->known()) return nullptr;
  const NodePtr costs = distribution.known_costs();
  return PlanRows::make(assignment.node->plan(context), assignment.unbatched,
                        costs ? costs->plan(context) : nullptr);
}

std::shared_ptr<PlanRows> rows_without_reading(const Distribution& distribution, const IterContext& context) {
  constexpr const char* kCall = "DistributedDataset.iterate: steps without rows (`with_rows`) need ";
  const RowAssignment& assignment = distribution.assignment;
  TORCH_CHECK_VALUE(
      distribution.pipelines.empty() && (assignment.replicas.ranks == 1 || distribution.one_stream()), kCall,
      "one stream for all replicas, but here replicas or processes read their own.");
  auto rows = plan_rows(distribution, context);
  if (rows) return rows;
  TORCH_CHECK_VALUE(!context.stream_only && assignment.node->plan(context), kCall, "random access, but `",
                    op_without_plan(*assignment.node, context),
                    "` has none, so that only reading tells its rows.");
  TORCH_CHECK_VALUE(
      false, kCall,
      "the numbers of rows of elements, and their costs where rows are exchanged, before they are "
      "read: map rows before they are batched, or with `row_wise`.");
}

}  // namespace torch_distinput
