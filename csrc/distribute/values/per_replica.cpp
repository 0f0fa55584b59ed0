// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "torch_distinput/error.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

PerReplica::PerReplica(std::vector<Element> values, StepInfo info)
    : values_(std::move(values)), info_(std::move(info)) {}

const PerReplica& Optional::get_value() const& {
  if (!value_) throw InvalidArgumentError("Optional.get_value: the optional has no value.");
  return *value_;
}

}  // namespace torch_distinput
