// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/strategy.h"

#include <utility>

#include "api/distributed_dataset.h"
#include "api/input_options.h"
#include "api/replica_threads.h"
#include "comm/agreed_seeds.h"
#include "distribute/coordination/report_failure.h"
#include "distribute/sharding/deal_streams.h"
#include "distribute/values/devices.h"

namespace torch_distinput {

Strategy::Strategy(std::vector<c10::Device> devices, bool partial_batches)
    : enable_partial_batch_handling(partial_batches),
      devices_(std::move(devices)),
      threads_(std::make_shared<ReplicaThreads>(devices_.size())) {}

std::int64_t Strategy::num_replicas_in_sync() const noexcept { return std::ssize(devices_) * num_ranks_; }

DistributedDataset Strategy::distribute_dataset(const Dataset& dataset, InputOptions options) const {
  if (seeds_ && !dataset.options().seed) {
    Options seeded;
    seeded.seed = seeds_->next();
    return distribute_dataset(dataset.with_options(seeded), std::move(options));
  }
  const Replicas replicas{num_ranks_, rank_, std::ssize(devices_)};
  check_input_options(options, replicas);
  const double peer_timeout = options.peer_timeout;
  return report_failure_to_peers(peers_, peer_timeout, [&] {
    const NodePtr& node = dataset.node();
    auto distribution = std::make_shared<Distribution>();
    distribution->options = dataset.options();
    const AutoShardPolicy policy = distribution->options.auto_shard_policy.value_or(AutoShardPolicy::kAuto);
    distribution->assignment =
        assign_rows(node, policy, replicas, options.split, options.weights.value_or(std::vector<double>{}));
    check_schedule(distribution->assignment, options.split, options.tail);
    distribution->balance =
        balance_of(options, distribution->assignment, distribution->options.skip.has_value());
    check_lanes(options, distribution->assignment, distribution->options.skip.has_value());
    distribution->input = std::move(options);
    distribution->devices = devices_;
    distribution->node = node;
    distribution->spec = node->spec();
    const auto& streams = distribution->assignment.streams;
    distribution->cardinality =
        streams ? cardinality_in_streams(node, *streams) : node->checked_cardinality();
    distribution->completes = enable_partial_batch_handling && may_lack_parts(*distribution);
    return DistributedDataset(std::make_shared<DistributedDataset::Impl>(std::move(distribution), peers_));
  });
}

OneDeviceStrategy::OneDeviceStrategy(const std::string& device)
    : Strategy(find_devices({device}, "OneDeviceStrategy"), /*partial_batches=*/false) {}

MirroredStrategy::MirroredStrategy(std::vector<std::string> devices)
    : Strategy(devices.empty() ? all_devices() : find_devices(devices, "MirroredStrategy"),
               /*partial_batches=*/true) {
  pipeline_per_replica_ = true;
}

}  // namespace torch_distinput
