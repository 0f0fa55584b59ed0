// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/step_info.h"

namespace torch_distinput {

/// One step: one element for each local replica. A value; references live as long as it does, and what a
/// temporary returns is a copy.
class TDI_API PerReplica {
 public:
  PerReplica(std::vector<Element> values, StepInfo info);
  /// In the order of the strategy's `devices()`.
  const std::vector<Element>& values() const& noexcept { return values_; }
  std::vector<Element> values() const&& { return values_; }
  /// What the step holds.
  const StepInfo& info() const& noexcept { return info_; }
  StepInfo info() const&& { return info_; }
  /// Number of local replicas.
  std::size_t size() const noexcept { return values_.size(); }
  /// The element of local replica `replica`. Throws std::out_of_range.
  const Element& operator[](std::size_t replica) const& { return values_.at(replica); }
  Element operator[](std::size_t replica) const&& { return values_.at(replica); }
  /// For range-for, also over a temporary, which then lives as long as the loop.
  auto begin() const& noexcept { return values_.begin(); }
  auto end() const& noexcept { return values_.end(); }
  void begin() const&& = delete;
  void end() const&& = delete;

 private:
  std::vector<Element> values_;
  StepInfo info_;
};

}  // namespace torch_distinput
