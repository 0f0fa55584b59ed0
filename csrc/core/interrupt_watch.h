// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// While it lives, remembers the interrupt of this thread's InterruptScope: an interrupt that passes through
/// a pipeline is not an error of the pipeline, even where an op turned it into one. Watches nest. Use it on
/// the thread that made it.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// The first interrupt; null if there was none.
  const std::exception_ptr& interrupt() const noexcept { return interrupt_; }

 private:
  friend void report_interrupt(const std::exception_ptr& interrupt) noexcept;

  InterruptWatch* outer_;
  std::exception_ptr interrupt_;
};

}  // namespace torch_distinput
