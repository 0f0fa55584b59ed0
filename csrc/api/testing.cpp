// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/testing.h"

#include <utility>

#include "distribute/sharding/row_assignment.h"
#include "distribute/splitting/batch_sizes.h"
#include "distribute/splitting/infer_batch_size.h"
#include "distribute/steps/parts_node.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput::testing {
namespace {

Dataset parts_of(RowAssignment assignment, const Dataset& dataset) {
  SpecPtr parts;
  if (const SpecPtr spec = dataset.node()->spec()) {
    parts = std::make_shared<const ElementSpec>(part_spec(*spec, assignment, Split::kTf, /*weighted=*/false));
  }
  return Dataset(parts_node(std::move(assignment), std::move(parts)));
}

}  // namespace

std::vector<std::int64_t> batch_sizes_for_worker(std::int64_t global_batch_size, std::int64_t num_workers,
                                                 std::int64_t replicas_per_worker, std::int64_t worker) {
  return torch_distinput::batch_sizes_for_worker(global_batch_size, num_workers, replicas_per_worker, worker);
}

std::int64_t infer_batch_size(const Dataset& dataset) {
  return torch_distinput::infer_batch_size(*dataset.node());
}

Dataset legacy_rebatch(const Dataset& dataset, std::int64_t num_replicas) {
  if (num_replicas < 1) {
    throw InvalidArgumentError("legacy_rebatch: `num_replicas` must be at least 1, but is " +
                               std::to_string(num_replicas) + ".");
  }
  check_replicas("legacy_rebatch", 1, num_replicas);
  require_rows(*dataset.node(), "legacy_rebatch");
  RowAssignment assignment;
  assignment.node = dataset.node();
  assignment.replicas.per_rank = num_replicas;
  assignment.splitter = legacy_splitter(num_replicas);
  assignment.local = {0};
  return parts_of(std::move(assignment), dataset);
}

Dataset auto_shard(const Dataset& dataset, std::int64_t num_workers, std::int64_t worker,
                   AutoShardPolicy policy) {
  if (policy == AutoShardPolicy::kStreams)
    return Dataset(assign_rows(dataset.node(), policy, {num_workers, worker}, Split::kTf, {}).node);
  const Sharding sharding = torch_distinput::auto_shard(dataset.node(), policy, num_workers, worker);
  const bool deals_elements = sharding.applied == AutoShardPolicy::kData && num_workers > 1;
  return Dataset(deals_elements ? ops::shard(sharding.node, num_workers, worker) : sharding.node);
}

Dataset worker_stream(const Dataset& dataset, std::int64_t num_workers, std::int64_t replicas_per_worker,
                      std::int64_t worker, AutoShardPolicy policy) {
  check_worker("worker_stream", num_workers, worker);
  check_replicas("worker_stream", num_workers, replicas_per_worker);
  const Replicas replicas{num_workers, worker, replicas_per_worker};
  return parts_of(assign_rows(dataset.node(), policy, replicas, Split::kTf, {}), dataset);
}

}  // namespace torch_distinput::testing
