// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

namespace torch_distinput {

/// The Poll of this thread, for waits inside of functions that take none. A reference to an empty function
/// where there is none.
const std::function<void()>& current_poll() noexcept;
/// Makes `poll`, which must live until it is replaced, the Poll of this thread. Returns the one before it.
const std::function<void()>* exchange_current_poll(const std::function<void()>* poll) noexcept;

/// Makes `poll` the Poll of this thread while it lives.
class PollScope {
 public:
  explicit PollScope(std::function<void()> poll)
      : poll_(std::move(poll)), outer_(exchange_current_poll(&poll_)) {}
  ~PollScope() { exchange_current_poll(outer_); }
  PollScope(const PollScope&) = delete;
  PollScope& operator=(const PollScope&) = delete;

 private:
  std::function<void()> poll_;
  const std::function<void()>* outer_;
};

}  // namespace torch_distinput
