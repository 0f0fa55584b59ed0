// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/batch_sizes.h"

#include <algorithm>
#include <string>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

void require(bool holds, const std::string& call, const std::string& rule, std::int64_t value) {
  if (!holds) throw InvalidArgumentError(call + ": " + rule + ", but is " + std::to_string(value) + ".");
}

}  // namespace

void check_worker(const std::string& call, std::int64_t num_workers, std::int64_t worker) {
  require(num_workers >= 1, call, "`num_workers` must be at least 1", num_workers);
  require(worker >= 0 && worker < num_workers, call,
          "`worker` must be in [0, " + std::to_string(num_workers) + ")", worker);
}

void check_replicas(const std::string& call, std::int64_t num_workers, std::int64_t replicas_per_worker) {
  require(replicas_per_worker >= 1, call, "`replicas_per_worker` must be at least 1", replicas_per_worker);
  require(num_workers <= kMaxReplicas / replicas_per_worker, call,
          "`num_workers` times `replicas_per_worker`, " + std::to_string(replicas_per_worker) +
              ", must be at most " + std::to_string(kMaxReplicas) + ", but `num_workers`",
          num_workers);
}

std::vector<std::int64_t> batch_sizes_for_worker(std::int64_t global_batch_size, std::int64_t num_workers,
                                                 std::int64_t replicas_per_worker, std::int64_t worker) {
  const std::string call = "batch_sizes_for_worker";
  require(num_workers >= 1, call, "`num_workers` must be at least 1", num_workers);
  check_replicas(call, num_workers, replicas_per_worker);
  const std::int64_t replicas = num_workers * replicas_per_worker;
  std::int64_t smaller = global_batch_size / replicas;
  if (global_batch_size % replicas < 0) --smaller;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(replicas), smaller);
  std::for_each_n(sizes.begin(), global_batch_size - replicas * smaller, [](std::int64_t& size) { ++size; });
  std::int64_t shift = worker * replicas_per_worker;
  if (shift < 0) shift += replicas;
  std::rotate(sizes.begin(), sizes.begin() + std::clamp(shift, std::int64_t{0}, replicas), sizes.end());
  return sizes;
}

}  // namespace torch_distinput
