// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/latencies.h"

#include <algorithm>

namespace torch_distinput {
namespace {

/// Shorter bodies come in one piece and tell nothing about a rate.
constexpr std::uint64_t kTellingBytes = std::uint64_t{256} << 10;
constexpr double kRateWeight = 0.1;

}  // namespace

void Latencies::add(Nanos time) noexcept { times_[count_++ % kKept] = time; }

void Latencies::add_body(std::uint64_t bytes, Nanos time) noexcept {
  if (bytes >= kTellingBytes) add_rate(bytes, time);
}

void Latencies::add_slow_body(std::uint64_t bytes, Nanos time) noexcept {
  if (rate_ > 0) add_rate(bytes, time);
}

void Latencies::add_rate(std::uint64_t bytes, Nanos time) noexcept {
  const double rate = static_cast<double>(bytes) * kSecond / static_cast<double>(std::max<Nanos>(time, 1));
  rate_ = rate_ == 0 ? rate : (1 - kRateWeight) * rate_ + kRateWeight * rate;
}

Nanos Latencies::quantile(double share) const noexcept {
  const std::size_t size = std::min(count_, kKept);
  if (size == 0) return 0;
  std::array<Nanos, kKept> sorted = times_;
  const std::size_t place = std::min(size - 1, static_cast<std::size_t>(share * static_cast<double>(size)));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(place),
                   sorted.begin() + static_cast<std::ptrdiff_t>(size));
  return sorted[place];
}

}  // namespace torch_distinput
