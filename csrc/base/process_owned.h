// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "base/fork_guard.h"

namespace torch_distinput {

/// Owns state that threads of this process share (locks, condition variables, rings).
///
/// In a forked child those threads do not exist: a lock may stay locked, and destroying a condition variable
/// may hang. There the state is leaked instead of destroyed.
template <class State>
class ProcessOwned {
 public:
  /// This process becomes the owner.
  explicit ProcessOwned(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~ProcessOwned() {
    if (inherited()) new std::shared_ptr<State>(std::move(state_));
  }
  ProcessOwned(const ProcessOwned&) = delete;
  ProcessOwned& operator=(const ProcessOwned&) = delete;

  /// Whether this process is a forked child of the one that made the state.
  bool inherited() const noexcept { return fork_guard_.inherited(); }

  State* operator->() const noexcept { return state_.get(); }
  State& operator*() const noexcept { return *state_; }

  /// A shared reference for a task or thread that may outlive this owner.
  const std::shared_ptr<State>& share() const noexcept { return state_; }

 private:
  std::shared_ptr<State> state_;
  ForkGuard fork_guard_;
};

}  // namespace torch_distinput
