// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/keyed_split.h"

#include <algorithm>
#include <cmath>

#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::int64_t kFurthest = std::int64_t{1} << 62;
constexpr double kLeastShare = 0x1p-62;
constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;

/// In units of 2^-64. A share such as 1/3 is not a double; rounded up by more than the error of one, its
/// strata still begin where they should, at 0, 3, 6, ...
std::uint64_t rounded_up(double share) {
  const auto rounded = static_cast<std::uint64_t>(std::ldexp(std::clamp(share, kLeastShare, 0.5), 64));
  return std::min(rounded + (rounded >> 51), kHalf);
}

}  // namespace

/// A position in its stratum.
struct KeyedSplit::Place {
  std::int64_t stratum;
  std::int64_t offset;  ///< positions of the stratum before it
  std::int64_t drawn;   ///< the offset of the rare side's position
};

KeyedSplit::KeyedSplit(double share, std::uint64_t key) noexcept
    : share_(rounded_up(share)),
      key_(key),
      quotient_(~std::uint64_t{0} / share_),
      remainder_(~std::uint64_t{0} % share_) {}

/// Positions of the stratum whose first position q has the fraction `first` of q * share.
std::int64_t KeyedSplit::length(std::uint64_t first) const noexcept {
  return static_cast<std::int64_t>(quotient_ + (first > remainder_ ? 0 : 1));
}

std::int64_t KeyedSplit::drawn(std::int64_t stratum, std::int64_t length) const noexcept {
  const Wide random = mix_keys(key_, static_cast<std::uint64_t>(stratum));
  return static_cast<std::int64_t>(random * static_cast<std::uint64_t>(length) >> 64);
}

KeyedSplit::Place KeyedSplit::place(std::int64_t position) const noexcept {
  const Wide product = Wide{static_cast<std::uint64_t>(position)} * share_;
  const auto stratum = static_cast<std::int64_t>(product >> 64);
  const auto fraction = static_cast<std::uint64_t>(product);
  const std::uint64_t offset = fraction / share_;
  return {stratum, static_cast<std::int64_t>(offset), drawn(stratum, length(fraction - offset * share_))};
}

KeyedSplit::Deal KeyedSplit::deal(std::int64_t position) const noexcept {
  const Place here = place(position);
  if (here.offset == here.drawn) return {Side::kRare, here.stratum};
  return {Side::kCommon, position - here.stratum - (here.drawn < here.offset ? 1 : 0)};
}

std::int64_t KeyedSplit::rare_before(std::int64_t position) const noexcept {
  const Place here = place(position);
  return here.stratum + (here.drawn < here.offset ? 1 : 0);
}

std::size_t KeyedSplit::deal_run(std::int64_t position, std::span<std::int64_t> offsets,
                                 std::int64_t* rare) const noexcept {
  const KeyedSplit split = *this;  // which the writes below cannot change
  Place here = place(position);
  auto first = static_cast<std::uint64_t>(position - here.offset) * share_;
  std::size_t rares = 0;
  std::size_t commons = 0;
  for (std::size_t i = 0; i < offsets.size();) {
    const std::int64_t size = split.length(first);
    const std::size_t end = std::min(offsets.size(), i + static_cast<std::size_t>(size - here.offset));
    const std::size_t drawn_at = i + static_cast<std::size_t>(here.drawn - here.offset);
    for (; i < end; ++i) {
      // Both are written, because a branch on a random side would be mispredicted half of the time.
      const std::int64_t offset = offsets[i];
      rare[rares] = offset;
      offsets[commons] = offset;
      const std::size_t is_rare = i == drawn_at ? 1 : 0;
      rares += is_rare;
      commons += 1 - is_rare;
    }
    first += static_cast<std::uint64_t>(size) * split.share_;
    here = {here.stratum + 1, 0, split.drawn(here.stratum + 1, split.length(first))};
  }
  return rares;
}

/// The first position q with `number` + 1 common positions up to q, where `rare_before` counts the others.
/// It is at most a few positions from `number` / (1 - share), because the count is within 1 of the share.
template <class RareBefore>
std::int64_t KeyedSplit::common_position(std::int64_t number, RareBefore rare_before) const noexcept {
  const Wide near = (Wide{static_cast<std::uint64_t>(number)} << 64) / (~std::uint64_t{0} - share_ + 1);
  if (near > kFurthest) return kNever;
  auto position = std::max<std::int64_t>(static_cast<std::int64_t>(near) - 1, 0);
  while (position + 1 - rare_before(position + 1) <= number) ++position;
  return position;
}

std::int64_t KeyedSplit::position_of(Side side, std::int64_t number) const noexcept {
  if (number > kFurthest) return kNever;
  if (side == Side::kCommon)
    return common_position(number, [this](std::int64_t position) { return rare_before(position); });
  const std::int64_t begin = earliest_position_of(side, number);
  if (begin == kNever) return kNever;
  return begin + drawn(number, length(static_cast<std::uint64_t>(begin) * share_));
}

std::int64_t KeyedSplit::earliest_position_of(Side side, std::int64_t number) const noexcept {
  if (number > kFurthest) return kNever;
  // The rare side's position may be the last of each stratum, or the first.
  if (side == Side::kCommon)
    return common_position(number, [this](std::int64_t position) { return place(position).stratum; });
  const Wide begin = ((Wide{static_cast<std::uint64_t>(number)} << 64) + (share_ - 1)) / share_;
  return begin > kFurthest ? kNever : static_cast<std::int64_t>(begin);
}

std::int64_t KeyedSplit::most_before(Side side, std::int64_t position) const noexcept {
  const Place here = place(position);
  return side == Side::kCommon ? position - here.stratum : here.stratum + (here.offset > 0 ? 1 : 0);
}

}  // namespace torch_distinput
