// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// For loops that may be long, such as reading again up to a saved position: each call reads the clock, and
/// calls this thread's interrupt check about every 50 ms. One thread.
class InterruptPoll {
 public:
  /// Throws what the interrupt check throws.
  void operator()() {
    constexpr std::chrono::milliseconds kInterval{50};
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < kInterval) return;
    looked_ = now;
    if (const auto& check = interrupt_check()) check();
  }

 private:
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};

}  // namespace torch_distinput
