// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// A plan that may be able to make many elements as one column although their shapes differ.
class RaggedPlan : public Plan {
 public:
  /// Whether `fetch_ragged` works.
  virtual bool fetches_ragged() const = 0;
  /// As `fetch_batch`, but leaves whose dim 0 is `kUnknownDim` in the spec are ragged. REQUIRES:
  /// `fetches_ragged()`.
  virtual Element fetch_ragged(std::span<std::int64_t> positions) const = 0;
};

/// `plan` where its `fetch_ragged` works, else null.
inline const RaggedPlan* as_ragged(const Plan& plan) {
  const auto* const ragged = dynamic_cast<const RaggedPlan*>(&plan);
  return ragged != nullptr && ragged->fetches_ragged() ? ragged : nullptr;
}

}  // namespace torch_distinput
