// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace torch_distinput {

/// How long a peer has given no new sign of life. Adds up the times between the checks, each with an upper
/// bound, so that time in which this process did not run (stopped, suspended) does not count. Has no clock of
/// its own. One thread at a time.
template <class Sign>
class Silence {
 public:
  using Seconds = std::chrono::duration<double>;
  using Time = std::chrono::steady_clock::time_point;

  /// Checks the last sign that came, which differs from the one before it. Returns the length of the silence.
  Seconds check(const Sign& last, Time now, Seconds most) {
    length_ =
        std::exchange(last_, last) == last ? length_ + std::min<Seconds>(now - checked_, most) : Seconds{};
    checked_ = now;
    return length_;
  }
  /// There is nothing to wait for.
  void reset(Time now) {
    length_ = Seconds{};
    checked_ = now;
  }

 private:
  Sign last_{};
  Seconds length_{};
  Time checked_{};
};

}  // namespace torch_distinput
