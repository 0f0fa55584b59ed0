// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/options.h"

/// \file
/// Laws that every pipeline obeys and building blocks of the distribution, for tests of pipelines and of
/// users' own nodes.

namespace torch_distinput::testing {

/// Runs one epoch of `dataset` on both paths, saves after every element, restores each save in a fresh
/// iterator and compares the elements that follow, in order unless `ordered` is false. Looks at the first
/// `max_elements` elements; without order, at a dataset that has no more than these. Throws c10::Error naming
/// the first position that differs.
TDI_API void assert_resumable(const Dataset& dataset, bool ordered = true, std::int64_t max_elements = 200);

/// Checks that both paths yield identical elements, up to `max_elements` of them. Throws c10::Error at the
/// first difference.
TDI_API void assert_paths_agree(const Dataset& dataset, std::int64_t max_elements = 200);

/// The sizes into which worker `worker` of W cuts batches of B rows, for W workers of R replicas each
/// (`batch_sizes_for_worker` of tf.distribute). Throws c10::ValueError for numbers out of range.
TDI_API std::vector<std::int64_t> batch_sizes_for_worker(std::int64_t global_batch_size,
                                                         std::int64_t num_workers,
                                                         std::int64_t replicas_per_worker,
                                                         std::int64_t worker);
/// The global batch size as tf.distribute infers it, or -1 where it finds none.
TDI_API std::int64_t infer_batch_size(const Dataset& dataset);
/// Every batch cut into N parts of up to ceil(rows / N) rows. Throws InvalidArgumentError for N below 1.
TDI_API Dataset legacy_rebatch(const Dataset& dataset, std::int64_t num_replicas);
/// The elements that worker `worker` of W reads under `policy`, without splitting batches.
TDI_API Dataset auto_shard(const Dataset& dataset, std::int64_t num_workers, std::int64_t worker,
                           AutoShardPolicy policy);
/// The stream of parts of worker `worker`, sharded and split as tf.distribute does; part k goes to local
/// replica k mod R at step k div R.
TDI_API Dataset worker_stream(const Dataset& dataset, std::int64_t num_workers,
                              std::int64_t replicas_per_worker, std::int64_t worker, AutoShardPolicy policy);

}  // namespace torch_distinput::testing
