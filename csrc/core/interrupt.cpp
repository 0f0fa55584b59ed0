// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/interrupt.h"

#include <utility>

#include "base/current_poll.h"
#include "core/interrupt_watch.h"
#include "core/stop_scope.h"

namespace torch_distinput {
namespace {

/// The innermost watch of the innermost scope; null: none.
thread_local InterruptWatch* watches = nullptr;

/// `check`, with its exceptions passed to `report_interrupt`.
std::function<void()> reporting(std::function<void()> check) {
  return [check = std::move(check)] {
    try {
      check();
    } catch (...) {
      report_interrupt(std::current_exception());
      throw;
    }
  };
}

}  // namespace

InterruptScope::InterruptScope(std::function<void()> check)
    : check_(reporting(std::move(check))),
      outer_(exchange_current_poll(&check_)),
      outer_watches_(std::exchange(watches, nullptr)) {}

InterruptScope::~InterruptScope() {
  exchange_current_poll(outer_);
  watches = outer_watches_;
}

const std::function<void()>& interrupt_check() { return current_poll(); }

bool cancelled() {
  try {
    if (current_poll()) current_poll()();
    return false;
  } catch (const Stopped&) {
    return true;
  }
}

InterruptWatch::InterruptWatch() : outer_(std::exchange(watches, this)) {}

InterruptWatch::~InterruptWatch() { watches = outer_; }

void report_interrupt(const std::exception_ptr& interrupt) noexcept {
  if (!current_poll()) return;
  for (InterruptWatch* watch = watches; watch != nullptr; watch = watch->outer_) {
    if (!watch->interrupt_) watch->interrupt_ = interrupt;
  }
}

}  // namespace torch_distinput
