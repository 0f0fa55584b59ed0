// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

#include "torch_distinput/element.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput::fakes {

/// An interrupt that, like Ctrl-C in Python, is not a std::exception.
struct Interrupted {};

/// Throws an Interrupted that was given to `report_interrupt`.
[[noreturn]] inline void interrupt_call() {
  const auto interrupt = std::make_exception_ptr(Interrupted{});
  report_interrupt(interrupt);
  std::rethrow_exception(interrupt);
}

/// A function that returns its argument and is interrupted in one call.
class InterruptedCall {
 public:
  /// Call `number`, counted from 0, is interrupted.
  explicit InterruptedCall(std::int64_t number) : number_(number) {}

  std::function<Element(Element)> function() const {
    return [calls = calls_, number = number_](Element element) {
      if ((*calls)++ == number) interrupt_call();
      return element;
    };
  }
  /// Whether that call has been made.
  bool struck() const { return *calls_ > number_; }

 private:
  std::int64_t number_;
  std::shared_ptr<std::atomic<std::int64_t>> calls_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace torch_distinput::fakes
