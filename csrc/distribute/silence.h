// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace torch_distinput {

/// How long nothing was heard, counted by one's own looks: time in which this process did not run (stopped,
/// suspended) is not held against others.
class Silence {
 public:
  using Seconds = std::chrono::duration<double>;

  /// `interval`: between two looks.
  explicit Silence(Seconds interval) : longest_step_(2 * interval) {}

  void looked(bool heard) {
    const auto now = std::chrono::steady_clock::now();
    for_ = heard ? Seconds{} : for_ + std::min<Seconds>(now - last_look_, longest_step_);
    last_look_ = now;
  }
  Seconds length() const { return for_; }

 private:
  Seconds longest_step_;
  Seconds for_{};
  std::chrono::steady_clock::time_point last_look_ = std::chrono::steady_clock::now();
};

}  // namespace torch_distinput
