// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "distribute/coordination/rank_status.h"
#include "distribute/coordination/round.h"

namespace torch_distinput {

/// One rank's part in the agreement on the end of uneven streams: what it has ready, what the rounds so far
/// released to its consumer, and when it is time for another round. Counts only: no data, no threads, no
/// waits.
///
/// A rank takes part in a round when it has something to say and half of its read-ahead is used up, so that a
/// round is about as many steps and its way through the network is hidden after those that are left.
class Agreement {
 public:
  /// Most steps that one round is about: its text stays small, whatever the read-ahead.
  static constexpr std::int64_t kMaxAhead = 64;

  /// `ahead`: as in `read_ahead`. `until_first`: the first rank that ends ends the epoch.
  Agreement(std::int64_t ahead, bool until_first);

  /// From now on this rank makes `ahead` steps before they are asked for, in [1, kMaxAhead]; it may have
  /// made more.
  void read_ahead(std::int64_t ahead);
  /// Another step of this rank's stream lies ready, with `valid` rows that count. `place`: where the ranks
  /// read one stream, a hash of its place after the step. REQUIRES: `has_room`.
  void add_step(std::int64_t valid, std::optional<std::int64_t> place = std::nullopt);
  /// This rank's stream has no further step.
  void end();
  /// This rank's stream failed after the steps added.
  void fail(const std::string& message);
  /// Whether this rank's stream may make another step.
  bool has_room() const;
  /// Whether it is time to go on with a stream that had no room: there is room for several steps, so that its
  /// thread does not wake up for each.
  bool wants_steps() const;

  /// Whether this rank takes part in the next round now.
  bool wants_round() const;
  /// What it says there.
  RankStatus say() const;
  /// What all ranks said in a round, this one's `say` among them.
  void apply(const std::vector<RankStatus>& texts);

  /// Steps that the consumer may take.
  std::int64_t released() const { return static_cast<std::int64_t>(released_.size()); }
  /// The next of them; `own`: whether this rank has a step of its own there. REQUIRES: `released() > 0`.
  Round::Step take(bool& own);

  /// The rank whose failure is due after the released steps, and what it said.
  struct Failure {
    int rank;
    std::string message;
    bool apart = false;  ///< no error of the rank's own
  };
  const std::optional<Failure>& failure() const { return failure_; }
  /// Whether nothing follows the released steps.
  bool ended() const { return ended_; }
  /// Whether no further round will be held.
  bool settled() const { return ended_ || failure_.has_value(); }

 private:
  /// Further steps that this rank's stream may make.
  std::int64_t room() const;
  bool exhausted() const { return unreleased_.empty() && after_ == RankStatus::After::kEnd; }

  std::int64_t ahead_ = 1;
  bool until_first_;
  std::deque<std::int64_t> unreleased_;  // own steps that no round released: their rows
  std::deque<std::int64_t> places_;      // after them, or empty
  RankStatus::After after_ = RankStatus::After::kMore;
  std::string message_;
  std::deque<Round::Step> released_;
  std::int64_t own_released_ = 0;  // the first of released_, where this rank has steps of its own
  bool ended_ = false;
  std::optional<Failure> failure_;
};

}  // namespace torch_distinput
