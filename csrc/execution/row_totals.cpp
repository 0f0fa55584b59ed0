// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/row_totals.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kStride = 256;

}  // namespace

std::int64_t RowTotals::before(std::int64_t position, const SumRange& sum) const {
  const auto stride = static_cast<std::size_t>(position / kStride);
  std::int64_t total = 0;
  {
    const std::lock_guard lock(mutex_);
    while (totals_.size() <= stride) {
      const auto begin = static_cast<std::int64_t>(totals_.size() - 1) * kStride;
      totals_.push_back(totals_.back() + sum(begin, begin + kStride));
    }
    total = totals_[stride];
  }
  return total + sum(position / kStride * kStride, position);
}

}  // namespace torch_distinput
