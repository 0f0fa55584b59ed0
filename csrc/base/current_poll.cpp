// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/current_poll.h"

#include <utility>

namespace torch_distinput {
namespace {

const std::function<void()> kNoPoll;
thread_local const std::function<void()>* current = &kNoPoll;

}  // namespace

const std::function<void()>& current_poll() noexcept { return *current; }

const std::function<void()>* exchange_current_poll(const std::function<void()>* poll) noexcept {
  return std::exchange(current, poll);
}

}  // namespace torch_distinput
