// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_distinput {

/// The sizes, in rows, of the parts that worker `worker` (tf.distribute's word for a rank) of `num_workers`,
/// with `replicas_per_worker` replicas each, takes in turn: N = num_workers * replicas_per_worker sizes that
/// differ by at most one and add up to `global_batch_size`, rotated so that the sizes of all workers at one
/// step add up to it too. A negative batch size and a worker out of range give the same sizes as in
/// tf.distribute. Throws InvalidArgumentError for counts below 1, and for more than `kMaxReplicas` replicas.
std::vector<std::int64_t> batch_sizes_for_worker(std::int64_t global_batch_size, std::int64_t num_workers,
                                                 std::int64_t replicas_per_worker, std::int64_t worker);

/// The largest number of replicas of all workers, because some lists have an entry for each.
inline constexpr std::int64_t kMaxReplicas = std::int64_t{1} << 20;

/// Throws InvalidArgumentError if `replicas_per_worker` is below 1 or all workers together have more than
/// `kMaxReplicas`. `call`: the function that the message names.
void check_replicas(const std::string& call, std::int64_t num_workers, std::int64_t replicas_per_worker);

/// Throws InvalidArgumentError unless 0 <= worker < num_workers. `call`: as above.
void check_worker(const std::string& call, std::int64_t num_workers, std::int64_t worker);

}  // namespace torch_distinput
