// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/deliver.h"

#include <utility>
#include <vector>

namespace torch_distinput {

PerReplica deliver(const ShippingPtr& shipping, BuiltStep& step, std::int64_t epoch, bool is_last) {
  std::vector<Element> values = shipping ? shipping->deliver(step) : std::move(step.parts);
  StepInfo info = std::move(step.info);
  info.epoch = epoch;
  info.is_last = is_last;
  return {std::move(values), std::move(info)};
}

}  // namespace torch_distinput
