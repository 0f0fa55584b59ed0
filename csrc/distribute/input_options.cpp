// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/input_options.h"

#include <c10/util/Exception.h>

#include <cmath>

namespace torch_distinput {
namespace {

void check_weights(const InputOptions& options, const Replicas& replicas) {
  if (!options.weights) return;
  TORCH_CHECK_VALUE(options.split == Split::kBalanced,
                    "InputOptions: `weights` need `split` \"balanced\", but it is \"tf\".");
  TORCH_CHECK_VALUE(std::ssize(*options.weights) == replicas.all(), "InputOptions: `weights` must be ",
                    replicas.all(), " numbers, one for each replica, but are ", options.weights->size(), ".");
  for (const double weight : *options.weights) {
    TORCH_CHECK_VALUE(std::isfinite(weight) && weight > 0,
                      "InputOptions: `weights` must be positive numbers, but one is ", weight, ".");
  }
}

}  // namespace

void check_input_options(const InputOptions& options, const Replicas& replicas) {
  if (options.replication_mode == ReplicationMode::kPerReplica) {
    C10_THROW_ERROR(NotImplementedError,
                    "distribute_dataset: `replication_mode` PER_REPLICA is only supported in "
                    "`distribute_datasets_from_function`.");
  }
  TORCH_CHECK_VALUE(options.per_replica_buffer_size >= 0,
                    "InputOptions: `per_replica_buffer_size` must not be negative, but is ",
                    options.per_replica_buffer_size, ".");
  TORCH_CHECK_VALUE(options.peer_timeout > 0, "InputOptions: `peer_timeout` must be positive, but is ",
                    options.peer_timeout, ".");
  check_weights(options, replicas);
}

}  // namespace torch_distinput
