// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/cost_windows.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <c10/util/Exception.h>

#include "execution/row_costs.h"

namespace torch_distinput {
namespace {

/// Read-ahead and ranks that share a stream use few windows at a time.
constexpr std::size_t kWindowsKept = 8;

}  // namespace

CostBatches batches_of_window(const std::vector<double>& costs, const CostRules& rules,
                              const std::function<std::int64_t(std::int64_t)>& row_number) {
  const auto dear =
      std::find_if(costs.begin(), costs.end(), [&](double cost) { return cost > rules.budget; });
  TORCH_CHECK_VALUE(dear == costs.end(), "batch_by_cost: row ", row_number(dear - costs.begin()), " costs ",
                    *dear, ", which is more than `budget`, ", rules.budget, ".");
  return batch_costs(costs, rules.budget);
}

CostWindows::CostWindows(PlanPtr costs, CostRules rules, std::function<std::int64_t(std::int64_t)> row_number)
    : costs_(std::move(costs)),
      rules_(rules),
      row_number_(std::move(row_number)),
      rows_(costs_->size()),
      windows_(rows_ == kEndless ? kEndless : rows_ / rules_.window + (rows_ % rules_.window > 0 ? 1 : 0)) {}

std::int64_t CostWindows::count() const {
  if (rows_ == kEndless) return kEndless;
  count_to(std::numeric_limits<std::int64_t>::max());
  const std::lock_guard lock(counting_);
  return totals_.back();
}

CostWindows::Place CostWindows::find(std::int64_t batch) const {
  count_to(batch);
  std::int64_t window = 0;
  std::int64_t before = 0;
  {
    const std::lock_guard lock(counting_);
    const auto next = std::upper_bound(totals_.begin(), totals_.end(), batch);
    before = *std::prev(next);
    window = next - totals_.begin() - 1;
  }
  return {window * rules_.window, batches_of(window), batch - before};
}

std::int64_t CostWindows::rows_before(std::int64_t batch) const {
  if (batch == 0) return 0;
  if (!count_to(batch)) return rows_;
  const Place place = find(batch);
  return place.first_row + place.batches->begin(place.batch);
}

/// Counts the batches of windows until batch `batch` is among them. Returns whether there is one.
bool CostWindows::count_to(std::int64_t batch) const {
  const std::lock_guard lock(counting_);
  while (totals_.back() <= batch && std::ssize(totals_) <= windows_) {
    const std::int64_t window = std::ssize(totals_) - 1;
    const Batches batches = compute(window);
    keep(window, batches);
    totals_.push_back(totals_.back() + batches->count());
  }
  return totals_.back() > batch;
}

CostWindows::Batches CostWindows::compute(std::int64_t window) const {
  const std::int64_t first = window * rules_.window;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(std::min(rules_.window, rows_ - first)));
  std::iota(positions.begin(), positions.end(), first);
  return std::make_shared<const CostBatches>(
      batches_of_window(gather_scalars<double>(*costs_, std::move(positions)), rules_,
                        [&](std::int64_t place) { return row_number_(first + place); }));
}

CostWindows::Batches CostWindows::batches_of(std::int64_t window) const {
  {
    const std::lock_guard lock(kept_mutex_);
    for (const auto& [kept, batches] : kept_) {
      if (kept == window) return batches;
    }
  }
  Batches batches = compute(window);
  keep(window, batches);
  return batches;
}

void CostWindows::keep(std::int64_t window, const Batches& batches) const {
  const std::lock_guard lock(kept_mutex_);
  kept_.emplace_front(window, batches);
  if (kept_.size() > kWindowsKept) kept_.pop_back();
}

}  // namespace torch_distinput
