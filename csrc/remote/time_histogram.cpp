// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/time_histogram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace torch_distinput {
namespace {

constexpr double kLeastTime = 50e3;
constexpr double kBinsOfDoubling = 4;

}  // namespace

void TimeHistogram::add(Nanos time) noexcept {
  const double place = kBinsOfDoubling * std::log2(std::max(1.0, static_cast<double>(time) / kLeastTime));
  ++counts_[std::min(static_cast<std::size_t>(place), kBins - 1)];
}

TimeHistogram& TimeHistogram::operator-=(const TimeHistogram& before) noexcept {
  for (std::size_t bin = 0; bin < kBins; ++bin) counts_[bin] -= before.counts_[bin];
  return *this;
}

Nanos TimeHistogram::quantile(double share) const noexcept {
  const auto all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
  if (all <= 0) return 0;
  const double wanted = std::max(1.0, share * static_cast<double>(all));
  std::int64_t seen = 0;
  std::size_t bin = 0;
  while (bin + 1 < kBins && static_cast<double>(seen += counts_[bin]) < wanted) ++bin;
  const double middle = (static_cast<double>(bin) + 0.5) / kBinsOfDoubling;
  return static_cast<Nanos>(kLeastTime * std::exp2(middle));
}

}  // namespace torch_distinput
