// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/cost_batches.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/sort_by_cost.h"

namespace torch_distinput {
namespace {

/// Halvings of the range in which the cost of the dearest batch is looked for: to a 256th of it.
constexpr int kHalvings = 8;

/// The rows in batches: places in the order by cost.
struct Runs {
  std::vector<std::int32_t> places;
  std::vector<std::size_t> ends;  ///< after each batch, in `places`
};

/// The dearest rows that are left, as long as they cost at most `most`, and then the dearest that still fit,
/// if they cost at least half as much as the dearest of the batch: others would leave much padding.
Runs runs_within(const std::vector<SortedRow>& sorted, double most) {
  Runs runs;
  runs.places.reserve(sorted.size());
  std::vector<bool> taken(sorted.size());
  const auto next_left = [&](std::size_t place) {
    while (place < sorted.size() && taken[place]) ++place;
    return place;
  };
  for (std::size_t first = 0; first < sorted.size();) {
    double total = 0;
    const auto take = [&](std::size_t place) {
      taken[place] = true;
      runs.places.push_back(static_cast<std::int32_t>(place));
      total += sorted[place].cost;
    };
    const double dearest = sorted[first].cost;
    take(first);
    std::size_t place = next_left(first + 1);
    for (; place < sorted.size() && total + sorted[place].cost <= most; place = next_left(place + 1))
      take(place);
    first = place;
    while (place < sorted.size()) {
      const auto fits =
          std::partition_point(sorted.begin() + static_cast<std::ptrdiff_t>(place), sorted.end(),
                               [&](const SortedRow& row) { return total + row.cost > most; });
      place = next_left(static_cast<std::size_t>(fits - sorted.begin()));
      if (place == sorted.size() || 2 * sorted[place].cost < dearest) break;
      take(place);
    }
    first = next_left(first);
    runs.ends.push_back(runs.places.size());
  }
  return runs;
}

/// About as few runs as `budget` allows, and of these about the ones of which the dearest is the cheapest.
Runs even_runs(const std::vector<SortedRow>& sorted, double budget) {
  Runs runs = runs_within(sorted, budget);
  double total = 0;
  for (const SortedRow& row : sorted) total += row.cost;
  double low = std::max(sorted.front().cost, total / static_cast<double>(runs.ends.size()));
  double high = budget;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = low + (high - low) / 2;
    Runs cheaper = runs_within(sorted, middle);
    if (cheaper.ends.size() > runs.ends.size()) {
      low = middle;
    } else {
      high = middle;
      runs = std::move(cheaper);
    }
  }
  return runs;
}

}  // namespace

CostBatches batch_costs(std::span<const double> costs, double budget) {
  if (costs.empty()) return {};
  const std::vector<SortedRow> sorted = dearest_first(costs);
  const Runs runs = even_runs(sorted, budget);
  const auto begin_of = [&](std::size_t run) { return run == 0 ? 0 : runs.ends[run - 1]; };
  const auto row_at = [&](std::size_t at) { return sorted[static_cast<std::size_t>(runs.places[at])].row; };
  std::vector<std::size_t> order(runs.ends.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return row_at(begin_of(a)) < row_at(begin_of(b)); });
  CostBatches batches;
  batches.rows.reserve(costs.size());
  for (const std::size_t run : order) {
    const auto first = std::ssize(batches.rows);
    for (std::size_t at = begin_of(run); at < runs.ends[run]; ++at) batches.rows.push_back(row_at(at));
    std::sort(batches.rows.begin() + first, batches.rows.end());
    batches.ends.push_back(static_cast<std::int32_t>(batches.rows.size()));
  }
  return batches;
}

}  // namespace torch_distinput
