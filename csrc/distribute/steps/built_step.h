// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "distribute/splitting/step_schedule.h"
#include "distribute/steps/device_transfer.h"
#include "distribute/steps/distribution.h"
#include "torch_distinput/element.h"
#include "torch_distinput/state.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// A position in the input of a stream: its state before element `element`.
struct Upstream {
  std::int64_t element = 0;
  State state;
};

/// A position in an epoch from which a step source can continue.
struct Start {
  StepPosition position = {};
  /// The position of the sequential path's input; null: not known.
  std::shared_ptr<const Upstream> upstream = {};
  std::vector<Start> pipelines = {};  ///< one for each local replica if each reads its own dataset
  /// The position from which the stream's last steps must be read again, because the parts of later steps
  /// depend on them: those after the stream has ended before the streams of other ranks. Null if no part
  /// does.
  std::shared_ptr<const Start> seen_from = {};
};

/// A step with its data on the host, whose copies to devices may have begun.
struct BuiltStep {
  std::vector<Element> parts;          ///< one for each local replica
  std::vector<StagedPtr> staged = {};  ///< copies of the parts; null, or an empty vector, if none has begun
  StepInfo info;                       ///< without `epoch` and `is_last`
  std::int64_t batch = -1;             ///< rows of a full batch, or -1
  bool complete = true;                ///< as in `PlannedStep`, as are the next three
  bool last = false;
  bool last_complete = false;
  std::vector<std::vector<bool>> left_out = {};  ///< of the local replicas
  Start after;                                   ///< the position after this step
};

/// `num_replicas * valid / global_valid` of `info`; 0 if `global_valid` is 0.
double loss_scale(const StepInfo& info, std::int64_t valid);

/// Builds this rank's parts of `planned`: `take` returns the rows of a part that has segments, and
/// `missing_part` makes the others. `transfer`, if not null, begins to copy them. Throws what `take` throws.
BuiltStep build_step(const Distribution& distribution, const PlannedStep& planned,
                     const DeviceTransferPtr& transfer, const std::function<Element(const Part&)>& take);

/// `planned` for this rank, with parts that are `None`.
BuiltStep step_without_rows(const Distribution& distribution, const PlannedStep& planned);

/// The values of `step` for the user: each part on its replica's device. `transfer`: null if all parts stay
/// on the host. Moves the data out of `step`; if a copy to a device throws, `step` is unchanged.
PerReplica deliver(const DeviceTransferPtr& transfer, BuiltStep& step, std::int64_t epoch, bool is_last);

}  // namespace torch_distinput
