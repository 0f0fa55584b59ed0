// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/deliver.h"

#include <utility>
#include <vector>

namespace torch_distinput {

PerReplica deliver(const DeviceTransferPtr& transfer, BuiltStep& step, std::int64_t epoch, bool is_last) {
  std::vector<Element> values = transfer ? transfer->deliver(step.parts, step.staged) : std::move(step.parts);
  StepInfo info = std::move(step.info);
  info.epoch = epoch;
  info.is_last = is_last;
  return {std::move(values), std::move(info)};
}

}  // namespace torch_distinput
