// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "remote/concurrency_limit.h"

namespace torch_distinput {

/// Times by their size, in bins a fifth apart, so that those of a while are a difference. One thread at a
/// time.
class TimeHistogram {
 public:
  void add(Nanos time) noexcept;
  /// Takes away what was in it `before`.
  TimeHistogram& operator-=(const TimeHistogram& before) noexcept;
  /// The time that the given share of times needs at most, within a tenth; 0 where there is none.
  Nanos quantile(double share) const noexcept;

 private:
  /// From 50 us to 20 s; others are counted as those.
  static constexpr std::size_t kBins = 72;

  std::array<std::int64_t, kBins> counts_{};
};

}  // namespace torch_distinput
