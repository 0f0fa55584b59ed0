// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace torch_distinput {

/// A position that is never reached.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// Deals the positions 0, 1, 2, ... to two sides, one of which gets a share of at most 1/2. Stratum j is the
/// positions q with floor(q * share) = j, which are at least two; the rare side gets one position of each
/// stratum, drawn under the key, and the common side gets the others. So the rare side has floor(n * share)
/// or one more of any first n positions. Integers only: the same on every machine. Immutable; safe from any
/// thread.
class KeyedSplit {
 public:
  enum class Side { kRare, kCommon };

  /// REQUIRES: 0 <= `share` <= 1/2. A share below 2^-62 counts as 2^-62.
  KeyedSplit(double share, std::uint64_t key) noexcept;

  /// A position is number `number` of `side`.
  struct Deal {
    Side side;
    std::int64_t number;
  };
  Deal deal(std::int64_t position) const noexcept;
  /// Positions before `position` that the rare side has.
  std::int64_t rare_before(std::int64_t position) const noexcept;

  /// Deals as many positions as there are `offsets`, from `position` on, faster than by `deal`: moves the
  /// offsets of the rare side to `rare`, which has room for all, and those of the common side to the front.
  /// Both keep their order. Returns how many the rare side has.
  std::size_t deal_run(std::int64_t position, std::span<std::int64_t> offsets,
                       std::int64_t* rare) const noexcept;

  /// The position that is number `number` of `side`; `kNever` where that is beyond 2^62.
  std::int64_t position_of(Side side, std::int64_t number) const noexcept;
  /// The least of these positions under any key.
  std::int64_t earliest_position_of(Side side, std::int64_t number) const noexcept;
  /// The most positions before `position` that `side` has under any key.
  std::int64_t most_before(Side side, std::int64_t position) const noexcept;

 private:
  struct Place;
  Place place(std::int64_t position) const noexcept;
  std::int64_t length(std::uint64_t first) const noexcept;
  std::int64_t drawn(std::int64_t stratum, std::int64_t length) const noexcept;
  template <class RareBefore>
  std::int64_t common_position(std::int64_t number, RareBefore rare_before) const noexcept;

  std::uint64_t share_;  ///< in units of 2^-64
  std::uint64_t key_;
  std::uint64_t quotient_;   ///< of 2^64 - 1 by the share
  std::uint64_t remainder_;  ///< of the same
};

}  // namespace torch_distinput
