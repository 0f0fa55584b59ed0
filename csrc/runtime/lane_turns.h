// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Which lane has its turn at each position, for lanes of `lengths[l]` rows: as many rounds as the longest
/// lane has rows, in each of which a lane has at most one turn. The turns of a shorter lane are spread evenly
/// over the rounds, so that all lanes end together, and the lanes of a few consecutive turns are spread over
/// all of them. O(lanes) memory and time to begin anywhere. Immutable; safe from any thread.
class LaneTurns {
 public:
  struct Turn {
    std::int64_t lane;
    std::int64_t place;  ///< turns of the lane before this one
  };

  /// REQUIRES: the number of lanes is a power of two; lengths are not negative, and their sum is at most
  /// 2^62. Lanes of the same length should be neighbours: the rounds in which they rest are then spread
  /// evenly.
  explicit LaneTurns(std::vector<std::int64_t> lengths);

  /// The number of turns.
  std::int64_t size() const noexcept { return size_; }
  std::int64_t lanes() const noexcept { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t length(std::int64_t lane) const { return lengths_[static_cast<std::size_t>(lane)]; }

  /// The turns at `positions`. Fastest where these are close to one another. REQUIRES: all in [0, size()).
  std::vector<Turn> at(std::span<const std::int64_t> positions) const;

 private:
  class Round;
  /// Turns of lane `lane` before round `round`, and what is left towards its next turn.
  struct Taken {
    std::int64_t turns;
    std::int64_t rest;
  };
  Taken taken(std::size_t lane, std::int64_t round) const noexcept;
  /// Turns of all lanes before `round`.
  std::int64_t before(std::int64_t round) const noexcept;
  /// A round that is not after that of `position`, and at most a few before it.
  std::int64_t round_near(std::int64_t position) const noexcept;

  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> phases_;  ///< in [0, rounds_)
  std::vector<std::size_t> in_turn_;  ///< the lanes in the order of their turns in a round
  std::int64_t rounds_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace torch_distinput
