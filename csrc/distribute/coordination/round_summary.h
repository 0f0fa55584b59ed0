// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/peer_text.h"
#include "distribute/coordination/rank_status.h"

namespace torch_distinput {

/// What a round needs to know of the statuses of some ranks. Its size does not depend on their number, so
/// that the statuses of a group can be reduced to one summary up a tree: `join` is associative and
/// commutative.
class RoundSummary {
 public:
  /// Limit on the steps that a rank has ready.
  static constexpr std::int64_t kMaxSteps = 64;
  /// Limit on the rows of a step of one rank, so that sums over the ranks and two steps fit in 64 bits.
  static constexpr std::int64_t kMaxRows = std::int64_t{1} << 31;
  /// Limit on the bytes of a failure's message, which is cut there.
  static constexpr std::size_t kMaxMessage = 4096;

  /// A step that some rank has ready, or the one after the last of them.
  struct Step {
    std::int64_t rows = 0;  ///< that count, over all ranks
    bool lacks = true;      ///< a replica of some rank gets no row of it
    bool reaches = false;   ///< on every rank, it and the step before have a row for every replica
    /// The ranks that have all steps before this one ready and not this one, by what follows there.
    std::int64_t waiting = 0, ended = 0, failed = 0;

    std::int64_t ranks() const { return waiting + ended + failed; }
  };
  /// The failure with the fewest steps before it, because only that one can be the next event; the lowest
  /// rank's of several.
  struct Failure {
    std::int64_t ready;  ///< number of steps before it
    int rank;
    std::string message;
  };
  /// Ranks that read one stream are at different positions after step `step`.
  struct Apart {
    std::int64_t step;                ///< the first such step
    std::optional<std::int64_t> own;  ///< the position of the lowest rank; nullopt: it has no such step
    std::optional<std::int64_t> other;
    int rank;  ///< the lowest one with another position, `other`
  };

  /// The summary of one rank's status. `replicas`: of each rank, where a last step may be merged; else 0.
  static RoundSummary of(int rank, const RankStatus& status, std::int64_t replicas);
  /// Adds the ranks of `other`. REQUIRES: they are others, and not too many for an `int` in all.
  void join(const RoundSummary& other);

  std::int64_t ranks() const noexcept { return ranks_; }
  /// The steps that some rank has ready, and one more, which has no rows.
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  const std::optional<Apart>& apart() const noexcept { return apart_; }

  std::string encode() const;
  /// The summary in a text, of some of `group` ranks. Throws PeerTextError for one that `encode` cannot have
  /// made.
  static RoundSummary decode(PeerTextReader reader, int group);

 private:
  void join_places(const RoundSummary& other);

  std::int64_t ranks_ = 0;
  int first_ = 0;  // the lowest rank
  std::vector<Step> steps_;
  std::optional<Failure> failure_;
  std::vector<std::int64_t> places_;  // after the steps where all ranks are at one position
  std::optional<Apart> apart_;        // at the step after these
};

/// Joins the texts of summaries. Throws PeerTextError unless each is a summary, together of at most `group`
/// ranks.
std::string join_rounds(const std::vector<std::string>& texts, int group);
/// The summary in a join of the texts of all of `group` ranks. Throws PeerTextError.
RoundSummary round_of_all(const std::string& joined, int group);

}  // namespace torch_distinput
