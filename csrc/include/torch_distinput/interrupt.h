// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// While one of these lives, waits made by this thread inside the library call
/// `check` about every 50 ms; what it throws ends the wait and loses nothing.
/// Python's binding looks for Ctrl-C this way. Scopes nest; the innermost counts.
class TDI_API InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> check);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  std::function<void()> check_;
  const std::function<void()>* outer_;
};

/// This thread's check; empty when there is none.
TDI_API const std::function<void()>& interrupt_check();

}  // namespace torch_distinput
