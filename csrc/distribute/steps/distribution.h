// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Device.h>

#include "distribute/sharding/row_assignment.h"
#include "distribute/splitting/deal_by_lane.h"
#include "execution/row_costs.h"
#include "execution/row_lanes.h"
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
  std::shared_ptr<const RowCosts> balance = {};  ///< of the rows that are exchanged; null: none are
  bool completes = false;  ///< steps that lack parts are completed (`partial_batch_handling`)
  /// One for each local replica, which reads its own dataset (`ReplicationMode::kPerReplica`); else empty.
  /// `assignment` is then that of the first.
  std::vector<DistributionPtr> pipelines = {};
  /// The states of a run on another number of ranks, if this is the rest of the epoch of that run.
  std::optional<State> rest = {};

  /// Whether all ranks read one stream and assign its rows by arithmetic; if not, they agree on its end.
  bool one_stream() const { return node && assignment.sharding.applied == AutoShardPolicy::kData; }

  /// The pipeline that a position is of: under policy STREAMS the user's, since positions fit any ranks.
  const NodePtr& identified() const { return assignment.streams ? node : assignment.node; }

  /// Whether rows that fail are skipped.
  bool skips() const { return options.skip.has_value(); }

  /// Whether only all ranks together know the last step, which tail `kMerge` may join to the one before it.
  bool merges_by_agreement() const {
    return input.tail == Tail::kMerge && assignment.replicas.ranks > 1 && !one_stream();
  }

  /// The first element that a run needs which continues before `element`: that of its window, whose rows may
  /// be exchanged with it.
  std::int64_t first_needed(std::int64_t element) const {
    return balance ? first_of_window(element, input.balance_window) : element;
  }

  /// Whether the rows of a step are dealt to parts by their lanes.
  bool deals_by_lane() const { return input.split == Split::kLanes; }

  /// The rows' scalars by which they are exchanged, costs or lanes, where these are known without reading
  /// rows; else null.
  NodePtr known_costs() const {
    if (deals_by_lane()) return lanes_in_place_of(assignment.node);
    return balance && balance->known() ? balance->in_place_of(assignment.node) : nullptr;
  }

  /// The parameters of this dataset's schedule.
  ScheduleRules rules() const {
    return {assignment.splitter,
            assignment.width,
            merges_by_agreement() ? Tail::kZeroRows : input.tail,
            assignment.batch,
            assignment.schedule,
            assignment.node->cardinality() == kInfiniteCardinality,
            assignment.from_function,
            balance || deals_by_lane() ? input.balance_window : 0,
            deals_by_lane() ? deal_by_lane : deal_by_cost};
  }
};

/// Whether a step may lack the parts of some replicas, by the rule of tf.distribute.
inline bool may_lack_parts(const Distribution& distribution) {
  const bool one_shape = distribution.spec && statically_shaped(*distribution.spec);
  return distribution.cardinality != kInfiniteCardinality &&
         (distribution.assignment.replicas.ranks > 1 || !one_shape);
}

}  // namespace torch_distinput
