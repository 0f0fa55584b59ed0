// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribute/sharding/auto_shard.h"
#include "distribute/splitting/step_schedule.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// The replicas among which a dataset is assigned, as seen by one worker.
struct Replicas {
  std::int64_t workers = 1;
  std::int64_t worker = 0;
  std::int64_t per_worker = 1;
  std::int64_t all() const noexcept { return workers * per_worker; }
};

/// Who gets which rows: all that follows from the pipeline, the options and the replicas before any data
/// is read. A value.
struct RowAssignment {
  NodePtr node;  ///< what this worker reads: global batches, or its own where the policy shards them
  Replicas replicas;
  Sharding sharding;
  std::int64_t batch = -1;     ///< inferred global batch size, or -1
  bool whole = false;          ///< elements are handed out as they are, one for each replica
  bool unbatched = false;      ///< elements are handed out whole and have no rows: each counts as one
  bool from_function = false;  ///< what the user's function makes: nothing is left out, empty or not
  SplitterPtr splitter;
  std::string splitter_reason;
  std::int64_t width = 1;           ///< parts of the stream that make a step
  std::vector<std::int64_t> local;  ///< which of them are this worker's, a number for each local replica
  bool strided = false;             ///< parts go to the workers in turn, as policy DATA assigns them

  /// Which part of a step replica `replica` gets. Replicas are counted over all workers where they share a
  /// stream, else over this worker's.
  std::int64_t place_of(std::int64_t replica) const;

  /// `context` for what this worker reads: tells its rows from those of the others where they read other
  /// data.
  IterContext context_of_stream(IterContext context) const;
};

/// Decides. With one replica in all, elements are handed out whole. Throws c10::ValueError for elements
/// that cannot be split, and what `auto_shard` throws.
RowAssignment assign_rows(const NodePtr& node, AutoShardPolicy policy, const Replicas& replicas, Split split,
                          const std::vector<double>& weights);

/// Elements as they are, element k for local replica k mod `replicas.per_worker`.
RowAssignment assign_whole(const NodePtr& node, const Replicas& replicas);

/// The spec of one replica's part.
ElementSpec part_spec(const ElementSpec& spec, const RowAssignment& assignment, Split split, bool weighted);

/// Every dim of every dense or string leaf is static, and dim 0 of the other leaves.
bool statically_shaped(const ElementSpec& spec);

}  // namespace torch_distinput
