// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/splitting/deal_by_cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/sort_by_cost.h"
#include "distribute/splitting/least_cost.h"

namespace torch_distinput {
namespace {

/// A difference of parts, as a share of their cost, that is not worth a search.
constexpr double kEven = 1e-3;

bool is_dearer(const SortedRow& a, const SortedRow& b) {
  return a.cost != b.cost ? a.cost > b.cost : a.row < b.row;
}

/// Moves the row at `place`, the only one out of order, to its place.
void sort_one(std::span<SortedRow> rows, std::size_t place) {
  const auto row = rows.begin() + static_cast<std::ptrdiff_t>(place);
  const auto earlier = std::upper_bound(rows.begin(), row, *row, is_dearer);
  std::rotate(earlier, row, row + 1);
  if (earlier != row) return;
  const auto later = std::lower_bound(row + 1, rows.end(), *row, is_dearer);
  std::rotate(row, row + 1, later);
}

/// The rows of each part, dearest first, and what they cost together.
class Deal {
 public:
  Deal(const std::vector<SortedRow>& rows, std::span<const std::int64_t> sizes)
      : rows_(rows.size()),
        begins_{0},
        costs_(sizes.size(), 0.0),
        cheapest_(sizes.size()),
        dearest_(sizes.size()) {
    LeastCost open(sizes.size());
    for (std::size_t part = 0; part < sizes.size(); ++part) {
      if (sizes[part] > 0) open.set(part, 0);
      begins_.push_back(begins_.back() + static_cast<std::size_t>(sizes[part]));
    }
    std::vector<std::size_t> ends(begins_.begin(), begins_.end() - 1);
    for (const SortedRow& row : rows) {
      const std::size_t part = open.owner();
      rows_[ends[part]++] = row;
      costs_[part] += row.cost;
      if (ends[part] < begins_[part + 1])
        open.set(part, costs_[part]);
      else
        open.remove(part);
    }
    for (std::size_t part = 0; part < costs_.size(); ++part) add(part, 0);
  }

  /// Lets two rows of the dearest and the cheapest part change places where that brings the two closest
  /// together. Returns whether it did.
  bool swap_rows() {
    const std::size_t cheap = cheapest_.owner();
    const std::size_t dear = dearest_.owner();
    const double gap = costs_[dear] - costs_[cheap];
    if (gap <= costs_[dear] * kEven) return false;
    const auto best = best_swap(rows_of(dear), rows_of(cheap), gap);
    if (!best) return false;
    SortedRow& from = rows_of(dear)[best->first];
    SortedRow& to = rows_of(cheap)[best->second];
    add(dear, to.cost - from.cost);
    add(cheap, from.cost - to.cost);
    std::swap(from, to);
    sort_one(rows_of(dear), best->first);
    sort_one(rows_of(cheap), best->second);
    return true;
  }

  /// The part of each row.
  std::vector<std::int32_t> parts() {
    std::vector<std::int32_t> parts(rows_.size());
    for (std::size_t part = 0; part < costs_.size(); ++part) {
      for (const SortedRow& row : rows_of(part))
        parts[static_cast<std::size_t>(row.row)] = static_cast<std::int32_t>(part);
    }
    return parts;
  }

 private:
  void add(std::size_t part, double cost) {
    costs_[part] += cost;
    cheapest_.set(part, costs_[part]);
    dearest_.set(part, -costs_[part]);
  }

  std::span<SortedRow> rows_of(std::size_t part) {
    return std::span(rows_).subspan(begins_[part], begins_[part + 1] - begins_[part]);
  }

  /// The places of two rows, of `dear` and of `cheap`, whose costs differ by about half of `gap`: by more
  /// than a thousandth of it, so that each swap is progress.
  static std::optional<std::pair<std::size_t, std::size_t>> best_swap(std::span<const SortedRow> dear,
                                                                      std::span<const SortedRow> cheap,
                                                                      double gap) {
    std::optional<std::pair<std::size_t, std::size_t>> best;
    double left = gap * 0.998;
    std::size_t partner = 0;
    for (std::size_t row = 0; row < dear.size() && !cheap.empty(); ++row) {
      const auto difference = [&](std::size_t other) { return dear[row].cost - cheap[other].cost; };
      while (partner + 1 < cheap.size() && difference(partner) < gap / 2) ++partner;
      for (const std::size_t other : {partner == 0 ? partner : partner - 1, partner}) {
        const double remaining = std::abs(gap - 2 * difference(other));
        if (remaining < left) {
          left = remaining;
          best = {row, other};
        }
      }
    }
    return best;
  }

  std::vector<SortedRow> rows_;      ///< of one part after the other
  std::vector<std::size_t> begins_;  ///< of each part in `rows_`, and the end
  std::vector<double> costs_;        ///< of each part
  LeastCost cheapest_;
  LeastCost dearest_;  ///< by costs times -1
};

}  // namespace

std::vector<std::int32_t> deal_by_cost(std::span<const double> costs, std::span<const std::int64_t> sizes) {
  if (sizes.size() == 1) return std::vector<std::int32_t>(costs.size(), 0);
  Deal deal(dearest_first(costs), sizes);
  // What is left of a difference after a few swaps a part is beyond what single rows can even out.
  for (std::size_t swaps = 0; swaps < 2 * sizes.size() && deal.swap_rows(); ++swaps) {
  }
  return deal.parts();
}

}  // namespace torch_distinput
