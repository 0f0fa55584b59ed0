// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/lane_turns.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace torch_distinput {
namespace {

__extension__ using Wide = unsigned __int128;

Wide product(std::int64_t a, std::int64_t b) { return static_cast<Wide>(a) * static_cast<Wide>(b); }

/// 0, 1, ... `count` - 1 with their bits reversed: the first ones of any power of two are evenly spread.
std::vector<std::size_t> spread(std::size_t count) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 1, half = count / 2; i < count; i *= 2, half /= 2) {
    for (std::size_t j = 0; j < i; ++j) order[i + j] = order[j] + half;
  }
  return order;
}

/// Rounds that are faster to step through than to search.
constexpr std::int64_t kFewRounds = 8;

}  // namespace

/// The turns of one round; goes from one to the next.
class LaneTurns::Round {
 public:
  explicit Round(const LaneTurns& all) : all_(all), taken_(all.lengths_.size()) {}

  /// The turn at `position`, which is not before those asked for so far.
  Turn at(std::int64_t position) {
    if (turns_.empty() || position - begin_ >= kFewRounds * all_.lanes()) enter(all_.round_near(position));
    while (position >= end()) step();
    return turns_[static_cast<std::size_t>(position - begin_)];
  }

 private:
  std::int64_t end() const { return begin_ + static_cast<std::int64_t>(turns_.size()); }

  void enter(std::int64_t round) {
    begin_ = 0;
    for (std::size_t lane = 0; lane < taken_.size(); ++lane) {
      taken_[lane] = all_.taken(lane, round);
      begin_ += taken_[lane].turns;
    }
    find_turns();
  }

  void step() {
    begin_ = end();
    for (const Turn& turn : turns_) {
      Taken& taken = taken_[static_cast<std::size_t>(turn.lane)];
      ++taken.turns;
      taken.rest -= all_.rounds_;
    }
    for (std::size_t lane = 0; lane < taken_.size(); ++lane) taken_[lane].rest += all_.lengths_[lane];
    find_turns();
  }

  void find_turns() {
    turns_.clear();
    for (const std::size_t lane : all_.in_turn_) {
      if (taken_[lane].rest + all_.lengths_[lane] >= all_.rounds_)
        turns_.push_back({static_cast<std::int64_t>(lane), taken_[lane].turns});
    }
  }

  const LaneTurns& all_;
  std::vector<Taken> taken_;
  std::vector<Turn> turns_;
  std::int64_t begin_ = 0;  ///< turns of all rounds before
};

LaneTurns::LaneTurns(std::vector<std::int64_t> lengths)
    : lengths_(std::move(lengths)),
      in_turn_(spread(lengths_.size())),
      rounds_(*std::max_element(lengths_.begin(), lengths_.end())),
      size_(std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0})) {
  // Multiples of the golden ratio: however many neighbours are looked at, their phases are evenly spread.
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  for (std::uint64_t lane = 0; lane < lengths_.size(); ++lane) {
    const Wide phase = static_cast<Wide>(lane * kGolden) * static_cast<Wide>(rounds_);
    phases_.push_back(static_cast<std::int64_t>(phase >> 64));
  }
}

std::vector<LaneTurns::Turn> LaneTurns::at(std::span<const std::int64_t> positions) const {
  std::vector<std::size_t> order(positions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!std::is_sorted(positions.begin(), positions.end())) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  }
  std::vector<Turn> turns(positions.size());
  Round round(*this);
  for (const std::size_t index : order) turns[index] = round.at(positions[index]);
  return turns;
}

LaneTurns::Taken LaneTurns::taken(std::size_t lane, std::int64_t round) const noexcept {
  // Division of 64 bits is several times faster.
  constexpr std::int64_t kNarrow = std::int64_t{1} << 31;
  if (rounds_ <= kNarrow) {
    const std::int64_t earned = round * lengths_[lane] + phases_[lane];
    return {earned / rounds_, earned % rounds_};
  }
  const Wide earned = product(round, lengths_[lane]) + static_cast<Wide>(phases_[lane]);
  const auto rounds = static_cast<Wide>(rounds_);
  return {static_cast<std::int64_t>(earned / rounds), static_cast<std::int64_t>(earned % rounds)};
}

std::int64_t LaneTurns::before(std::int64_t round) const noexcept {
  std::int64_t turns = 0;
  for (std::size_t lane = 0; lane < lengths_.size(); ++lane) turns += taken(lane, round).turns;
  return turns;
}

std::int64_t LaneTurns::round_near(std::int64_t position) const noexcept {
  // Each lane is less than one turn ahead of or behind its share of the rounds.
  const auto share = [&](std::int64_t turns) {
    return static_cast<std::int64_t>(product(std::max<std::int64_t>(turns, 0), rounds_) /
                                     static_cast<Wide>(size_));
  };
  std::int64_t low = share(position - lanes());
  std::int64_t high = std::min(share(position + lanes()) + 1, rounds_);
  // Invariant: before(low) <= position < before(high).
  while (high - low > kFewRounds) {
    const std::int64_t middle = low + (high - low) / 2;
    (before(middle) <= position ? low : high) = middle;
  }
  return low;
}

}  // namespace torch_distinput
