// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/options.h"

/// \file
/// Laws and building blocks, for tests of pipelines and of own nodes.

namespace torch_distinput::testing {

/// Runs one epoch of `dataset`, saves after every element, restores each save in
/// a fresh iterator and compares the rest, in both paths. Order matters unless
/// `ordered` is false. Throws c10::Error naming the first position that differs.
/// REQUIRES: at most `max_elements` are looked at.
TDI_API void assert_resumable(const Dataset& dataset, bool ordered = true, std::int64_t max_elements = 200);

/// Both paths yield identical elements; throws c10::Error at the first difference.
TDI_API void assert_paths_agree(const Dataset& dataset, std::int64_t max_elements = 200);

/// The sizes that worker `worker` of W cuts batches of B into, for W workers of R
/// replicas each (`batch_sizes_for_worker` of tf.distribute).
TDI_API std::vector<std::int64_t> batch_sizes_for_worker(std::int64_t global_batch_size,
                                                         std::int64_t num_workers,
                                                         std::int64_t replicas_per_worker,
                                                         std::int64_t worker);
/// The global batch size as tf.distribute infers it, or -1.
TDI_API std::int64_t infer_batch_size(const Dataset& dataset);
/// Every batch cut into N parts of ceil(rows / N).
TDI_API Dataset legacy_rebatch(const Dataset& dataset, std::int64_t num_replicas);
/// What worker `worker` of W reads under `policy`, without splitting.
TDI_API Dataset auto_shard(const Dataset& dataset, std::int64_t num_workers, std::int64_t worker,
                           AutoShardPolicy policy);
/// The stream of parts of worker `worker`, split and sharded as tf.distribute does;
/// part k goes to local replica k mod R at step k div R.
TDI_API Dataset worker_stream(const Dataset& dataset, std::int64_t num_workers,
                              std::int64_t replicas_per_worker, std::int64_t worker, AutoShardPolicy policy);

}  // namespace torch_distinput::testing
