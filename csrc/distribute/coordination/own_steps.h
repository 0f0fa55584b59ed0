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

/// Turns the steps of a rank's own stream into the steps that all ranks take: with the counts that they
/// agreed on, and with steps without rows after the stream has ended. One thread at a time.
class OwnSteps {
 public:
  /// `row_start`: rows of the epoch before `start`, over all ranks. If `start.seen_from` is set, reads the
  /// steps between it and `start` again, in `context`.
  OwnSteps(DistributionPtr distribution, const IterContext& context, const Start& start,
           std::int64_t row_start);

  /// The next step, for which this rank's stream made `own`.
  BuiltStep complete(BuiltStep own, const Round::Step& agreed);
  /// The last step, in which all that this rank's stream had left, `own`, is dealt out to its replicas.
  BuiltStep merged(std::vector<BuiltStep> own, const Round::Step& agreed);
  /// The next step, after the end of this rank's stream.
  BuiltStep empty(const Round::Step& agreed);

 private:
  /// What `Tail::kPadded` needs to know of a local replica.
  struct Seen {
    std::optional<Element> part;        // the last one that had rows
    std::shared_ptr<const Start> from;  // the position before its step
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
  std::int64_t first_part_;  // index in the splitter's round of the next step's first part
  std::int64_t batch_;       // rows of a full batch, or -1
  bool pads_;                // the steps after the end repeat rows
  std::vector<Seen> seen_;
  // The position before the stream's last step, or where it was opened.
  std::shared_ptr<const Start> last_from_;
  // Own steps without rows after the last one, if other ranks have rows there.
  std::deque<std::vector<bool>> left_out_;
  bool has_left_out_ = false;  // there were some
};

}  // namespace torch_distinput
