// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// While it lives, remembers what this thread's interrupt check throws: an interrupt that passes through a
/// pipeline is no error of the pipeline, even where something on the way took it for one.
class InterruptWatch {
 public:
  InterruptWatch() {
    if (const auto& check = interrupt_check()) {
      scope_.emplace([this, &check] {
        try {
          check();
        } catch (...) {
          interrupt_ = std::current_exception();
          throw;
        }
      });
    }
  }

  const std::exception_ptr& interrupt() const noexcept { return interrupt_; }

 private:
  std::exception_ptr interrupt_;
  std::optional<InterruptScope> scope_;
};

}  // namespace torch_distinput
