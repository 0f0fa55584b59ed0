// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "distribute/built_step.h"
#include "distribute/distribution.h"
#include "distribute/round.h"

namespace torch_distinput {

/// Turns what a rank's own stream made into the steps of all ranks: with the counts that were agreed on, and
/// steps without rows where the stream has ended.
class OwnSteps {
 public:
  /// `row_start`: rows of the epoch before `start`, over all ranks.
  OwnSteps(DistributionPtr distribution, const Start& start, std::int64_t row_start);

  /// The next step, of which this rank's stream made `own`.
  BuiltStep complete(BuiltStep own, const Round::Step& agreed);
  /// The next step, behind the end of this rank's stream.
  BuiltStep empty(const Round::Step& agreed);

 private:
  BuiltStep agree(BuiltStep step, const Round::Step& agreed);

  DistributionPtr distribution_;
  Start at_;                                // after the step last handed out
  std::int64_t row_start_;                  // of the next step
  std::deque<std::vector<bool>> left_out_;  // own steps without rows behind the last, which others may fill
  std::vector<Element> last_parts_;         // for the tail `padded`
};

}  // namespace torch_distinput
