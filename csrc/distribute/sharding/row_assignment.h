// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "distribute/sharding/auto_shard.h"
#include "distribute/sharding/deal_streams.h"
#include "distribute/splitting/step_schedule.h"
#include "execution/scheduled_batches.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// The replicas to which rows are assigned, as one rank sees them.
struct Replicas {
  std::int64_t ranks = 1;     ///< processes
  std::int64_t rank = 0;      ///< this process, in [0, ranks)
  std::int64_t per_rank = 1;  ///< replicas of each process
  /// Number of replicas of all ranks.
  std::int64_t all() const noexcept { return ranks * per_rank; }
};

/// Which replica gets which rows: everything that follows from the pipeline, the options and the replicas
/// before any data is read. A value.
struct RowAssignment {
  NodePtr node;  ///< the pipeline that this rank reads: global batches, or its own if the policy shards them
  Replicas replicas;
  Sharding sharding;
  std::int64_t batch = -1;         ///< inferred global batch size in rows, or -1
  BatchSchedulePtr schedule = {};  ///< the global batch sizes, where they change with the number of the batch
  bool whole = false;              ///< elements are handed out as they are, one for each replica
  bool unbatched = false;          ///< elements are handed out whole and have no rows; each counts as one row
  bool from_function = false;      ///< the dataset is of a user's function: empty elements at the end stay
  SplitterPtr splitter;
  std::string splitter_reason;             ///< why this splitter, for `explain()`
  std::int64_t width = 1;                  ///< parts of the stream in one step
  std::vector<std::int64_t> local;         ///< index in the step of each local replica's part
  std::optional<StreamDeal> streams = {};  ///< under policy STREAMS
  bool strided = false;                    ///< parts go to the ranks in turn, as policy DATA assigns them

  /// The index of the part of a step that replica `replica` gets. Replicas are numbered over all ranks if
  /// these share a stream, else over this rank's replicas.
  std::int64_t place_of(std::int64_t replica) const;

  /// `context` for the pipeline of this rank. If ranks read different data, its `stream` distinguishes
  /// this rank's rows from those of the others.
  IterContext context_of_stream(IterContext context) const;
};

/// Assigns the rows of `node` to `replicas`. `weights`: one for each replica of all ranks, or empty, for
/// `Split::kBalanced`. With one replica in all, elements are handed out whole. Throws c10::ValueError for
/// elements that cannot be split, and what `auto_shard` throws. Reads no data.
RowAssignment assign_rows(const NodePtr& node, AutoShardPolicy policy, const Replicas& replicas, Split split,
                          const std::vector<double>& weights);

/// Throws c10::ValueError, which names the limit and what to do, where the batches of `assignment` change in
/// size by their number and `tail` or the sharding needs one size.
void check_schedule(const RowAssignment& assignment, Split split, Tail tail);

/// Assigns whole elements of a dataset from a user's function: element k goes to local replica
/// k mod `replicas.per_rank`.
RowAssignment assign_whole(const NodePtr& node, const Replicas& replicas);

/// `tf`, `balanced` or `lanes`.
std::string split_name(Split split);

/// The global batch size for messages: a number, -1, or a schedule.
std::string batch_size_text(const RowAssignment& assignment);

/// The spec of one replica's part. `spec`: of the elements; `weighted`: whether replicas have weights. Dim 0
/// is static only if every part has that number of rows.
ElementSpec part_spec(const ElementSpec& spec, const RowAssignment& assignment, Split split, bool weighted);

/// Whether every dim of every dense or string leaf is static, and dim 0 of every other leaf.
bool statically_shaped(const ElementSpec& spec);

}  // namespace torch_distinput
