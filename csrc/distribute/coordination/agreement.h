// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "distribute/coordination/rank_status.h"
#include "distribute/coordination/round.h"
#include "distribute/coordination/round_summary.h"

namespace torch_distinput {

/// One rank's side of the agreement on the steps of uneven streams: the steps that it has ready, the steps
/// that rounds have released to its consumer, and whether it is time for another round. It holds counts only:
/// no data, no threads, no waits. One thread at a time.
///
/// A rank takes part in a round when it has something to report and half of its read-ahead is used up. So a
/// round covers about half of the read-ahead, and its latency is hidden by the steps that are left.
class Agreement {
 public:
  /// The largest number of steps in a round, which keeps its text small.
  static constexpr std::int64_t kMaxAhead = RoundSummary::kMaxSteps;

  /// `ahead`: as in `read_ahead`.
  Agreement(std::int64_t ahead, RoundRules rules);

  /// Sets how many steps this rank makes before they are requested, in [1, kMaxAhead]; at least 2 where the
  /// last step is merged, because one is held back. It may have made more.
  void read_ahead(std::int64_t ahead);
  /// A step of this rank's stream that is ready.
  struct Ready {
    std::int64_t valid = 0;  ///< rows that count
    /// Where all ranks read one stream: a hash of its position after the step.
    std::optional<std::int64_t> place = {};
    bool lacks = false;  ///< a replica of this rank gets no row of it
  };
  /// Adds a step. REQUIRES: `has_room`. Where the last step is merged, the end of a stream is reported
  /// together with its last step.
  void add_step(const Ready& step);
  /// Marks the end of this rank's stream, after the steps that were added.
  void end();
  /// Marks that this rank's stream failed after the steps that were added.
  void fail(const std::string& message);
  /// Whether this rank's stream may make another step.
  bool has_room() const;
  /// Whether to continue with a stream that had no room: there is room for several steps, so that its thread
  /// does not wake up for each.
  bool wants_steps() const;

  /// Whether this rank must take part in the next round now.
  bool wants_round() const;
  /// The summary of this rank, `rank`, for the next round.
  RoundSummary summary(int rank) const;
  /// Applies the result of a round. `all`: the join of all ranks' summaries, with this rank's.
  void apply(const RoundSummary& all);

  /// Number of steps that the consumer may take.
  std::int64_t released() const { return static_cast<std::int64_t>(released_.size()); }
  /// Takes the next released step. `own` is set to the number of this rank's own steps that it is made of: at
  /// most one, except where steps were merged. REQUIRES: `released() > 0`.
  Round::Step take(std::int64_t& own);

  /// A failure of a rank, which every rank throws after the released steps.
  struct Failure {
    int rank;
    std::string message;
    bool apart = false;  ///< the rank had no error, but its position in the one stream differs from rank 0's
  };
  /// The first failure that a round decided, if any.
  const std::optional<Failure>& failure() const { return failure_; }
  /// Whether nothing follows the released steps.
  bool ended() const { return ended_; }
  /// Whether no further round will be held.
  bool settled() const { return ended_ || failure_.has_value(); }

 private:
  /// Number of further steps that this rank's stream may make.
  std::int64_t room() const;
  bool exhausted() const { return unreleased_.empty() && after_ == RankStatus::After::kEnd; }
  bool merges() const { return rules_.merged_replicas > 0; }

  std::int64_t ahead_ = 1;
  RoundRules rules_;
  std::deque<Ready> unreleased_;  // own steps that no round has released
  RankStatus::After after_ = RankStatus::After::kMore;
  std::string message_;
  std::deque<Round::Step> released_;
  std::int64_t own_released_ = 0;  // number of own steps, which are the first ones of released_
  bool ended_ = false;
  std::optional<Failure> failure_;
};

}  // namespace torch_distinput
