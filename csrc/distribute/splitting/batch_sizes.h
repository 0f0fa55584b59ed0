// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace torch_distinput {

/// The sizes into which worker `worker` of `num_workers`, with `replicas_per_worker` replicas each, cuts
/// its rows in turn: N = num_workers * replicas_per_worker sizes that differ by at most one and add up to
/// `global_batch_size`, rotated so that the sizes of all workers at one step add up to it too.
/// A negative batch size and a worker out of range give the sizes that tf.distribute gives for them.
/// Throws InvalidArgumentError for counts below 1.
std::vector<std::int64_t> batch_sizes_for_worker(std::int64_t global_batch_size, std::int64_t num_workers,
                                                 std::int64_t replicas_per_worker, std::int64_t worker);

/// The most replicas of all workers: some lists have an entry for each.
inline constexpr std::int64_t kMaxReplicas = std::int64_t{1} << 20;

/// Throws InvalidArgumentError where `replicas_per_worker` is below 1 or all workers together have more than
/// `kMaxReplicas`; `call` names the call.
void check_replicas(const std::string& call, std::int64_t num_workers, std::int64_t replicas_per_worker);

/// Throws InvalidArgumentError unless 0 <= worker < num_workers; `call` names the call.
void check_worker(const std::string& call, std::int64_t num_workers, std::int64_t worker);

}  // namespace torch_distinput
