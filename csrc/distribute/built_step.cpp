// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/built_step.h"

#include <c10/util/Exception.h>

namespace torch_distinput {

Element zero_part(const SpecPtr& spec, const Node& node) {
  const SpecPtr known = spec ? spec : node.spec();
  TORCH_CHECK_VALUE(
      known != nullptr,
      "distribute_dataset: a replica has no rows in this step, and the type of the elements is not "
      "known; declare it (`element_spec`).");
  return zero_rows(*known);
}

namespace {

StepInfo info_of(const Distribution& distribution, const PlannedStep& planned) {
  StepInfo info;
  info.step = planned.before.step;
  info.row_start = planned.before.row;
  info.global_valid = planned.global_valid;
  info.num_replicas = distribution.dealing.replicas.all();
  for (const std::int64_t index : distribution.dealing.local) {
    const std::int64_t valid = planned.valid[static_cast<std::size_t>(index)];
    info.valid.push_back(valid);
    info.loss_scale.push_back(info.global_valid == 0 ? 0.0
                                                     : static_cast<double>(info.num_replicas * valid) /
                                                           static_cast<double>(info.global_valid));
    info.has_value.push_back(planned.parts[static_cast<std::size_t>(index)].present);
  }
  return info;
}

}  // namespace

BuiltStep build_step(const Distribution& distribution, const PlannedStep& planned,
                     const std::function<Element(const Part&)>& take) {
  BuiltStep step;
  for (const std::int64_t index : distribution.dealing.local) {
    const Part& part = planned.parts[static_cast<std::size_t>(index)];
    step.parts.push_back(part.segments.empty() ? zero_part(distribution.spec, *distribution.dealing.node)
                                               : take(part));
  }
  step.info = info_of(distribution, planned);
  step.complete = planned.complete;
  step.last = planned.last;
  step.last_complete = planned.last_complete;
  step.after = planned.after;
  return step;
}

}  // namespace torch_distinput
