// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "distribute/coordination/round.h"
#include "distribute/steps/built_step.h"
#include "distribute/steps/distribution.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Turns what a rank's own stream made into the steps of all ranks: with the counts that were agreed on, and
/// steps without rows where the stream has ended.
class OwnSteps {
 public:
  /// `row_start`: rows of the epoch before `start`, over all ranks. Where the steps to come may depend on
  /// those before `start`, reads these again, in `context`.
  OwnSteps(DistributionPtr distribution, const IterContext& context, const Start& start,
           std::int64_t row_start);

  /// The next step, of which this rank's stream made `own`.
  BuiltStep complete(BuiltStep own, const Round::Step& agreed);
  /// The next step, after the end of this rank's stream.
  BuiltStep empty(const Round::Step& agreed);

 private:
  /// What is remembered of each local replica, for the tail `padded`.
  struct Seen {
    std::optional<Element> part;        // the last one that had rows
    std::shared_ptr<const Start> from;  // the place before its step
  };

  void see(const BuiltStep& own, const std::shared_ptr<const Start>& from);
  void see_again(const IterContext& context);
  std::vector<bool> pass_empty();
  std::shared_ptr<const Start> seen_from() const;
  bool some_share_is_empty() const;
  std::int64_t full_rows(std::size_t replica) const;
  BuiltStep agree(BuiltStep step, const Round::Step& agreed);

  DistributionPtr distribution_;
  Start at_;                 // after the step last handed out
  std::int64_t row_start_;   // of the next step
  std::int64_t first_part_;  // the part of the round with which the next step begins
  std::int64_t batch_;       // rows of a full batch, or -1
  bool pads_;                // the steps after the end repeat rows
  std::vector<Seen> seen_;
  std::shared_ptr<const Start> last_from_;  // the place before the stream's last step, or where it was opened
  std::deque<std::vector<bool>> left_out_;  // own steps without rows after the last, which others may fill
  bool has_left_out_ = false;               // there were some
};

}  // namespace torch_distinput
