// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Device.h>

#include "distribute/sharding/row_assignment.h"
#include "torch_distinput/options.h"
#include "torch_distinput/state.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

struct Distribution;
using DistributionPtr = std::shared_ptr<const Distribution>;

/// A dataset under a strategy: everything that its iterators share. Immutable; safe from any thread.
struct Distribution {
  RowAssignment assignment;
  Options options;  ///< of the pipeline
  InputOptions input;
  std::vector<c10::Device> devices;  ///< of the local replicas
  NodePtr node;                  ///< the user's dataset, the same on every rank; null: each rank has its own
  SpecPtr spec;                  ///< of the global batches; null: not known before data is read
  std::int64_t cardinality = 0;  ///< of the user's dataset
  bool completes = false;        ///< steps that lack parts are completed (`partial_batch_handling`)
  /// One for each local replica, which reads its own dataset (`ReplicationMode::kPerReplica`); else empty.
  /// `assignment` is then that of the first.
  std::vector<DistributionPtr> pipelines = {};
  /// The states of a run on another number of ranks, if this is the rest of the epoch of that run.
  std::optional<State> rest = {};

  /// Whether all ranks read one stream and assign its rows by arithmetic; if not, they agree on its end.
  bool one_stream() const { return node && assignment.sharding.applied == AutoShardPolicy::kData; }

  /// Whether rows that fail are skipped.
  bool skips() const { return options.skip.has_value(); }

  /// Whether only all ranks together know the last step, which tail `kMerge` may join to the one before it.
  bool merges_by_agreement() const {
    return input.tail == Tail::kMerge && assignment.replicas.ranks > 1 && !one_stream();
  }

  /// The parameters of this dataset's schedule.
  ScheduleRules rules() const {
    return {
        assignment.splitter,     assignment.width,    merges_by_agreement() ? Tail::kZeroRows : input.tail,
        assignment.batch,        assignment.schedule, assignment.node->cardinality() == kInfiniteCardinality,
        assignment.from_function};
  }
};

/// Whether a step may lack the parts of some replicas, by the rule of tf.distribute.
inline bool may_lack_parts(const Distribution& distribution) {
  const bool one_shape = distribution.spec && statically_shaped(*distribution.spec);
  return distribution.cardinality != kInfiniteCardinality &&
         (distribution.assignment.replicas.ranks > 1 || !one_shape);
}

}  // namespace torch_distinput
