// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace torch_distinput {

/// Measures how long a peer or the store has been silent. It adds up the times between its own checks, each
/// with an upper bound, so that time in which this process did not run (stopped, suspended) does not count.
/// One thread at a time.
class LivenessTimer {
 public:
  using Seconds = std::chrono::duration<double>;

  /// Ends the silence: there was an answer at this check.
  void ends() { start_over(Seconds{}); }
  /// Adds the time since the last check, at most `most`: there was no answer at this check.
  void goes_on(Seconds most) { start_over(for_ + std::min<Seconds>(Clock::now() - last_look_, most)); }
  /// Continues a silence that a check has already seen. Otherwise resets: time between checks does not count
  /// as silence.
  void goes_on_if_begun(Seconds most) { for_ > Seconds{} ? goes_on(most) : ends(); }

  /// The length of the silence.
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
