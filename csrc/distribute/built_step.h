// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "distribute/distribution.h"
#include "distribute/step_schedule.h"
#include "torch_distinput/element.h"
#include "torch_distinput/state.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// A place in the input of a stream: its position before element `element`.
struct Upstream {
  std::int64_t element = 0;
  State state;
};

/// A step with its data, on the host.
struct BuiltStep {
  std::vector<Element> parts;  ///< one for each local replica
  StepInfo info;               ///< without `epoch` and `is_last`
  bool complete = true;
  bool last = false;
  bool last_complete = false;
  StepPosition after;
  std::shared_ptr<const Upstream> upstream;  ///< stream lane: at `after`
};

/// A zero-row element as `node` yields elements. `spec`: of them; null if it was not known before. Throws
/// c10::ValueError where it still is not.
Element zero_part(const SpecPtr& spec, const Node& node);

/// Fetches this worker's parts of `planned`. `take` gives the rows of a part that names some; the other
/// parts become zero-row elements.
BuiltStep build_step(const Distribution& distribution, const PlannedStep& planned,
                     const std::function<Element(const Part&)>& take);

}  // namespace torch_distinput
