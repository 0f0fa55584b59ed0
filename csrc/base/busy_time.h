// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_distinput {

/// The time that threads spend at something, added up over them, up to any moment: also of those that have
/// not ended. One word holds both how many are at it and the sum of the times at which they began and ended,
/// so that a reader sees both at one moment. At most 1,023 threads at a time, and sums wrap after 2^53 ns, so
/// that only differences over less than that mean something. Safe from any thread; relaxed.
class BusyTime {
 public:
  void begin(std::int64_t now) noexcept { word_.fetch_add(1 - shifted(now), std::memory_order_relaxed); }
  void end(std::int64_t now) noexcept { word_.fetch_add(shifted(now) - 1, std::memory_order_relaxed); }

  /// A reading at the time `now`, for `between`.
  std::uint64_t read(std::int64_t now) const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);
    return (word & ~kThreads) + (word & kThreads) * shifted(now);
  }
  /// The ns between two readings.
  static std::int64_t between(std::uint64_t first, std::uint64_t second) noexcept {
    return static_cast<std::int64_t>(second - first) >> kThreadBits;
  }

 private:
  static constexpr int kThreadBits = 10;
  static constexpr std::uint64_t kThreads = (std::uint64_t{1} << kThreadBits) - 1;
  static std::uint64_t shifted(std::int64_t ns) noexcept {
    return static_cast<std::uint64_t>(ns) << kThreadBits;
  }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace torch_distinput
