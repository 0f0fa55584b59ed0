// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "distribute/steps/distribution.h"

namespace torch_distinput {

/// How many steps a rank makes before they are asked for, where ranks agree on steps: the more, the fewer
/// rounds.
///
/// The option `prefetch` says it; else 1 + 2k for `per_replica_buffer_size` k, and none for 0. Where no code
/// of the user's would run early, it is more: as many as `prefetch_bytes` has room for, at most
/// `Agreement::kMaxAhead`.
class StepsAhead {
 public:
  explicit StepsAhead(const Distribution& distribution);

  /// Before any step is there; 0: each is made when it is asked for.
  std::int64_t at_first() const { return least_; }
  /// Where `steps` steps of `bytes` bytes lie ready: steps differ, so that those that are there decide.
  std::int64_t beside(std::int64_t steps, std::int64_t bytes) const;
  /// For `explain`: how many, why, and what else could be asked for.
  std::string describe() const;

 private:
  std::int64_t least_;
  std::int64_t bytes_ = 0;  // that may lie ready; 0: `least_` is all
  std::string why_;
};

}  // namespace torch_distinput
