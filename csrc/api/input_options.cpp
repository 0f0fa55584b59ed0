// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/input_options.h"

#include <cmath>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>

#include "core/names.h"
#include "execution/row_lanes.h"

namespace torch_distinput {
namespace {

void check_weights(const InputOptions& options, const Replicas& replicas) {
  if (!options.weights) return;
  TORCH_CHECK_VALUE(options.split == Split::kBalanced,
                    "InputOptions: `weights` need `split` \"balanced\", but it is \"",
                    split_name(options.split), "\".");
  TORCH_CHECK_VALUE(std::ssize(*options.weights) == replicas.all(), "InputOptions: `weights` must be ",
                    replicas.all(), " numbers, one for each replica, but are ", options.weights->size(), ".");
  for (const double weight : *options.weights) {
    TORCH_CHECK_VALUE(std::isfinite(weight) && weight > 0,
                      "InputOptions: `weights` must be positive numbers, but one is ", weight, ".");
  }
}

void check_balance(const InputOptions& options) {
  TORCH_CHECK_VALUE(options.balance_window >= 1, "InputOptions: `balance_window` must be at least 1, but is ",
                    options.balance_window, ".");
  if (!options.balance) {
    TORCH_CHECK_VALUE(options.balance_window == 1, "InputOptions: `balance_window` is ",
                      options.balance_window, ", but `balance` is unset.");
    return;
  }
  TORCH_CHECK_VALUE(options.split == Split::kBalanced,
                    "InputOptions: `balance` needs `split` \"balanced\", but it is \"",
                    split_name(options.split), "\".");
  TORCH_CHECK_VALUE(!options.weights,
                    "InputOptions: `balance` gives parts of equal cost, and `weights` unequal parts; one of "
                    "them must be unset.");
}

/// Throws unless the rows of a step can be exchanged, as `option` asks.
void check_shared(std::string_view option, const RowAssignment& assignment, bool skips) {
  const bool shared = assignment.replicas.ranks == 1 || assignment.sharding.applied == AutoShardPolicy::kData;
  TORCH_CHECK_VALUE(shared, "InputOptions: ", option,
                    " needs ranks that share one stream, but the policy is applied as ",
                    policy_name(assignment.sharding.applied), "; use auto_shard_policy DATA.");
  TORCH_CHECK_VALUE(
      !skips || assignment.replicas.ranks == 1, "InputOptions: ", option,
      " needs ranks that read the same rows, but `on_error` \"skip\" lets each leave out others.");
  TORCH_CHECK_VALUE(!assignment.unbatched, "InputOptions: ", option,
                    " exchanges rows of batches, but the elements of `", assignment.node->describe(),
                    "` have no rows. Call `batch` on the dataset first.");
}

constexpr const char* kFunction = "distribute_datasets_from_function";

void check_numbers(const InputOptions& options) {
  TORCH_CHECK_VALUE(options.per_replica_buffer_size >= 0,
                    "InputOptions: `per_replica_buffer_size` must not be negative, but is ",
                    options.per_replica_buffer_size, ".");
  TORCH_CHECK_VALUE(options.peer_timeout > 0, "InputOptions: `peer_timeout` must be positive, but is ",
                    options.peer_timeout, ".");
  TORCH_CHECK_VALUE(options.host_timeout > 0, "InputOptions: `host_timeout` must be positive, but is ",
                    options.host_timeout, ".");
}

/// The same combinations are errors as in tf.distribute (recorded).
void check_placement(const InputOptions& options) {
  if (!options.place_dataset_on_device) return;
  const bool per_replica = options.replication_mode == ReplicationMode::kPerReplica;
  TORCH_CHECK_VALUE(
      per_replica, kFunction,
      ": `place_dataset_on_device` needs `replication_mode` PER_REPLICA, but it is PER_WORKER.");
  TORCH_CHECK_VALUE(!options.fetch_to_device, kFunction,
                    ": `place_dataset_on_device` cannot be True while `fetch_to_device` is True and "
                    "`replication_mode` is PER_REPLICA.");
}

/// The function decides how the data is split, so options that say how to split it would have no effect.
void check_split(const InputOptions& options) {
  TORCH_CHECK_VALUE(options.split == Split::kTf, kFunction,
                    ": `split` must be \"tf\": the datasets that the function makes are not split.");
  TORCH_CHECK_VALUE(!options.balance, kFunction,
                    ": `balance` must be unset: the datasets that the function makes are not split.");
  TORCH_CHECK_VALUE(!options.weights, kFunction,
                    ": `weights` must be unset: the datasets that the function makes are not split.");
  if (options.replication_mode == ReplicationMode::kPerWorker) return;
  TORCH_CHECK_VALUE(options.tail == Tail::kZeroRows || options.tail == Tail::kUntilFirst, kFunction,
                    ": with `replication_mode` PER_REPLICA, `tail` must be \"zero_rows\" or \"until_first\": "
                    "the replicas share no global batch that could be filled, dropped or merged.");
}

}  // namespace

void check_input_options(const InputOptions& options, const Replicas& replicas) {
  if (options.replication_mode == ReplicationMode::kPerReplica) {
    C10_THROW_ERROR(NotImplementedError,
                    "distribute_dataset: `replication_mode` PER_REPLICA is only supported in "
                    "`distribute_datasets_from_function` of MirroredStrategy.");
  }
  check_numbers(options);
  check_weights(options, replicas);
  check_balance(options);
}

void check_lanes(const InputOptions& options, const RowAssignment& assignment, bool skips) {
  if (options.split != Split::kLanes) return;
  TORCH_CHECK_VALUE(lanes_in_place_of(assignment.node) != nullptr,
                    "InputOptions: `split` \"lanes\" needs rows in the order of `shuffle(blocks=...)`, after "
                    "which ops only batch, choose or change single rows, but the dataset is `",
                    assignment.node->describe(),
                    "`; shuffle by `shuffle(blocks=...)`, or use `split` "
                    "\"balanced\".");
  check_shared("`split` \"lanes\"", assignment, skips);
}

std::shared_ptr<const RowCosts> balance_of(const InputOptions& options, const RowAssignment& assignment,
                                           bool skips) {
  if (!options.balance) return nullptr;
  check_shared("`balance`", assignment, skips);
  auto costs = std::make_shared<const RowCosts>(*options.balance, "InputOptions: `balance`");
  if (costs->known()) costs->check(assignment.node);
  return costs;
}

void check_function_options(const InputOptions& options, bool per_replica) {
  if (options.replication_mode == ReplicationMode::kPerReplica && !per_replica) {
    C10_THROW_ERROR(
        NotImplementedError,
        std::string(kFunction) + ": `replication_mode` PER_REPLICA is only supported by MirroredStrategy.");
  }
  check_numbers(options);
  check_placement(options);
  check_split(options);
}

}  // namespace torch_distinput
