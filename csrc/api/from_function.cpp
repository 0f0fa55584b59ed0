// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "api/distributed_dataset.h"
#include "api/input_options.h"
#include "distribute/coordination/report_failure.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {
namespace {

std::shared_ptr<Distribution> whole_distribution(const Dataset& dataset, const InputOptions& options,
                                                 const Replicas& replicas) {
  auto distribution = std::make_shared<Distribution>();
  const NodePtr& node = dataset.node();
  distribution->options = dataset.options();
  distribution->assignment = assign_whole(node, replicas);
  distribution->input = options;
  distribution->spec = node->spec();
  distribution->cardinality = node->checked_cardinality();
  const bool cuts =
      options.tail == Tail::kPadded || options.tail == Tail::kRepeat || options.tail == Tail::kMerge;
  TORCH_CHECK_VALUE(
      !cuts || !distribution->assignment.unbatched,
      "distribute_datasets_from_function: `tail` \"padded\", \"repeat\" and \"merge\" need batches, but the "
      "elements have no rows. Call `batch` on the dataset first.");
  return distribution;
}

}  // namespace

DistributedDataset Strategy::distribute_datasets_from_function(
    const std::function<Dataset(const InputContext&)>& make, InputOptions options) const {
  TORCH_CHECK_VALUE(make, "distribute_datasets_from_function: `make` must not be empty.");
  check_function_options(options, pipeline_per_replica_);
  const std::int64_t count = std::ssize(devices_);
  const Replicas replicas{num_ranks_, rank_, count};
  const double peer_timeout = options.peer_timeout;
  return report_failure_to_peers(peers_, peer_timeout, [&] {
    std::shared_ptr<Distribution> distribution;
    if (options.replication_mode == ReplicationMode::kPerWorker) {
      const Dataset dataset = make({num_ranks_, rank_, num_replicas_in_sync()});
      distribution = whole_distribution(dataset, options, replicas);
    } else {
      std::vector<DistributionPtr> pipelines;
      for (std::int64_t replica = 0; replica < count; ++replica) {
        const Dataset dataset = make({count, replica, count});
        if (replica == 0) distribution = whole_distribution(dataset, options, replicas);
        pipelines.push_back(whole_distribution(dataset, options, {}));
      }
      distribution->pipelines = std::move(pipelines);
    }
    distribution->devices = devices_;
    distribution->completes = enable_partial_batch_handling && may_lack_parts(*distribution);
    // As recorded from tf.distribute: the type of the elements is that of the last dataset; the rest is the
    // first's.
    if (!distribution->pipelines.empty()) distribution->spec = distribution->pipelines.back()->spec;
    return DistributedDataset(std::make_shared<DistributedDataset::Impl>(std::move(distribution), peers_));
  });
}

PerReplica Strategy::distribute_values_from_function(
    const std::function<Element(const ValueContext&)>& make) const {
  TORCH_CHECK_VALUE(make, "distribute_values_from_function: `make` must not be empty.");
  std::vector<Element> values;
  for (std::int64_t replica = 0; replica < std::ssize(devices_); ++replica) {
    values.push_back(make({rank_ * std::ssize(devices_) + replica, num_replicas_in_sync()}));
  }
  return {std::move(values), StepInfo{}};
}

}  // namespace torch_distinput
