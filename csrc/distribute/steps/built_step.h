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

/// A place in the input of a stream: its position before element `element`.
struct Upstream {
  std::int64_t element = 0;
  State state;
};

/// A place in an epoch from which a path can go on.
struct Start {
  StepPosition position = {};
  std::shared_ptr<const Upstream> upstream =
      {};                             ///< the place of the sequential path's input; null: not known
  std::vector<Start> pipelines = {};  ///< one for each local replica where each reads its own dataset
  /// A place from which the stream's last steps tell what its replicas get once it has ended before those of
  /// other ranks. Null where nothing depends on them.
  std::shared_ptr<const Start> seen_from = {};
};

/// A step with its data, on the host and perhaps on its way to the devices.
struct BuiltStep {
  std::vector<Element> parts;          ///< one for each local replica
  std::vector<StagedPtr> staged = {};  ///< of the parts; null, or none at all, where no copy has begun
  StepInfo info;                       ///< without `epoch` and `is_last`
  std::int64_t batch = -1;             ///< rows of a full batch, or -1
  bool complete = true;
  bool last = false;
  bool last_complete = false;
  std::vector<std::vector<bool>> left_out = {};  ///< as in `PlannedStep`, of the local replicas
  Start after;
};

/// `num_replicas * valid / global_valid` of `info`, 0 where nothing is valid.
double loss_scale(const StepInfo& info, std::int64_t valid);

/// Fetches this worker's parts of `planned`. `take` gives the rows of a part that names some; the other
/// parts become zero-row elements. `transfer`, which may be null, begins to move them.
BuiltStep build_step(const Distribution& distribution, const PlannedStep& planned,
                     const DeviceTransferPtr& transfer, const std::function<Element(const Part&)>& take);

}  // namespace torch_distinput
