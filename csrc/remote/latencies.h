// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "remote/concurrency_limit.h"

namespace torch_distinput {

/// The latest times to the first byte and rates of one server. One thread at a time.
class Latencies {
 public:
  /// A response began after `time`.
  void add(Nanos time) noexcept;
  /// Its body of `bytes` came in `time` after that.
  void add_body(std::uint64_t bytes, Nanos time) noexcept;
  /// A body that fell behind the others, and was ended, had brought `bytes` in `time`.
  void add_slow_body(std::uint64_t bytes, Nanos time) noexcept;

  /// Times that were seen.
  std::size_t count() const noexcept { return count_; }
  /// The time that the given share of responses needs at most; 0 before there was one.
  Nanos quantile(double share) const noexcept;
  /// Bytes a second of one connection; 0 where no body told.
  double rate() const noexcept { return rate_; }

 private:
  void add_rate(std::uint64_t bytes, Nanos time) noexcept;

  static constexpr std::size_t kKept = 128;

  std::array<Nanos, kKept> times_{};
  std::size_t count_ = 0;
  double rate_ = 0;
};

}  // namespace torch_distinput
