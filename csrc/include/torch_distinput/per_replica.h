// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/step_info.h"

namespace torch_distinput {

/// One element per local replica.
class TDI_API PerReplica {
 public:
  PerReplica(std::vector<Element> values, StepInfo info);
  const std::vector<Element>& values() const noexcept { return values_; }
  const StepInfo& info() const noexcept { return info_; }
  std::size_t size() const noexcept { return values_.size(); }
  const Element& operator[](std::size_t replica) const { return values_.at(replica); }
  auto begin() const noexcept { return values_.begin(); }
  auto end() const noexcept { return values_.end(); }

 private:
  std::vector<Element> values_;
  StepInfo info_;
};

}  // namespace torch_distinput
