// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/alias_table.h"

#include <algorithm>

#include "runtime/mix_keys.h"

namespace torch_distinput {
namespace {

__extension__ using Wide128 = unsigned __int128;

/// The sum with Neumaier's correction: over 10^8 weights a plain sum would lose half of the digits.
class CorrectedSum {
 public:
  void add(double value) {
    const double sum = sum_ + value;
    // No weight is negative, so the larger one is known without signs.
    correction_ += sum_ >= value ? (sum_ - sum) + value : (value - sum) + sum_;
    sum_ = sum;
  }
  double value() const { return sum_ + correction_; }

 private:
  double sum_ = 0;
  double correction_ = 0;
};

/// `share`, which is in [0, 1), as a bound of 64 random bits.
std::uint64_t bound_of(double share) { return static_cast<std::uint64_t>(share * 0x1p64); }

}  // namespace

AliasTable::AliasTable(std::span<const double> weights) : slots_(weights.size()) {
  const auto heaviest = std::max_element(weights.begin(), weights.end());
  CorrectedSum sum;  // of fractions of the largest, because the sum of the weights may be no finite number
  for (const double weight : weights) sum.add(weight / *heaviest);
  const double scale = static_cast<double>(weights.size()) / sum.value();
  // The probability of row i, times the number of rows.
  const auto share = [&](std::size_t i) { return weights[i] / *heaviest * scale; };
  const auto next_large = [&](std::size_t i) {
    while (i < weights.size() && share(i) < 1) ++i;
    return i;
  };

  // What light rows leave of their slots goes to the first heavy row until less than a slot is left of that
  // one; it is then a light row itself, and the next heavy row follows. So one remainder is enough.
  std::size_t heavy = next_large(0);
  double left = heavy < weights.size() ? share(heavy) : 0;
  for (std::size_t light = 0; light < weights.size(); ++light) {
    const double own = share(light);
    if (own >= 1) continue;
    // Rounding may use up the heavy rows early: then the rest, as small as an error of rounding, goes to the
    // heaviest row. Never to a row of weight 0.
    const bool used_up = heavy == weights.size();
    const auto alias = used_up ? heaviest - weights.begin() : static_cast<std::ptrdiff_t>(heavy);
    slots_[light] = {bound_of(own), alias};
    if (used_up) continue;
    left -= 1 - own;
    while (left < 1) {
      const std::size_t spent = heavy;
      heavy = next_large(spent + 1);
      if (heavy == weights.size()) {  // what is missing of the last slot is an error of rounding
        slots_[spent] = {0, static_cast<std::int64_t>(spent)};
        break;
      }
      slots_[spent] = {bound_of(left), static_cast<std::int64_t>(heavy)};
      left = share(heavy) - (1 - left);
    }
  }
  for (; heavy < weights.size(); heavy = next_large(heavy + 1))
    slots_[heavy] = {0, static_cast<std::int64_t>(heavy)};
}

std::int64_t AliasTable::draw(std::uint64_t key, std::uint64_t number) const noexcept {
  const Wide128 place = Wide128{mix_keys(key, 2 * number)} * slots_.size();
  const auto slot = static_cast<std::size_t>(place >> 64);
  const Slot& drawn = slots_[slot];
  const bool own = mix_keys(key, 2 * number + 1) < drawn.threshold;
  return own ? static_cast<std::int64_t>(slot) : drawn.alias;
}

}  // namespace torch_distinput
