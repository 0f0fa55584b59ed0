// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "distribute/steps/distribution.h"

namespace torch_distinput {

/// How many steps a rank makes before they are requested, if ranks agree on steps. More steps need fewer
/// rounds.
///
/// The option `prefetch` sets the number. Without it, the number is 1 + 2k for `per_replica_buffer_size` k,
/// and 0 for k = 0. If no users' code would run early, it is larger: as many steps as fit into
/// `prefetch_bytes`, at most `Agreement::kMaxAhead`. Immutable; safe from any thread.
class StepsAhead {
 public:
  explicit StepsAhead(const Distribution& distribution);

  /// The number before any step is made; 0: each step is made when it is requested.
  std::int64_t at_first() const { return least_; }
  /// The number when `steps` steps of `bytes` bytes in all are ready, from which it estimates further steps.
  std::int64_t beside(std::int64_t steps, std::int64_t bytes) const;
  /// For `explain()`: the number, why, and which option changes it.
  std::string describe() const;

 private:
  std::int64_t least_;
  std::int64_t bytes_ = 0;  // that may be ready; 0: `least_` holds
  std::string why_;
};

}  // namespace torch_distinput
