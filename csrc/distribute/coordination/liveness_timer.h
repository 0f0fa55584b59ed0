// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace torch_distinput {

/// How long nothing was heard, counted by one's own looks: time in which this process did not run (stopped,
/// suspended) is not held against others.
class LivenessTimer {
 public:
  using Seconds = std::chrono::duration<double>;

  /// Something was heard just now.
  void ends() { start_over(Seconds{}); }
  /// Nothing was heard since the last call here, which cannot have been longer ago than `most`.
  void goes_on(Seconds most) { start_over(for_ + std::min<Seconds>(Clock::now() - last_look_, most)); }
  /// The same, unless something was heard last: what nobody listened for is no silence.
  void goes_on_if_begun(Seconds most) { for_ > Seconds{} ? goes_on(most) : ends(); }

  Seconds length() const { return for_; }

 private:
  using Clock = std::chrono::steady_clock;

  void start_over(Seconds length) {
    for_ = length;
    last_look_ = Clock::now();
  }

  Seconds for_{};
  Clock::time_point last_look_ = Clock::now();
};

}  // namespace torch_distinput
