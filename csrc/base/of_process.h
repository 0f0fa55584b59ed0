// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "base/fork_guard.h"

namespace torch_distinput {

/// An object that each process has for itself, made at its first use: a forked child makes another one, and
/// leaves that of its parent alone, whose threads it does not have and whose locks may be held. No lock is
/// taken, which another thread might hold while the process forks. Safe from any thread.
template <class T>
class OfProcess {
 public:
  constexpr OfProcess() noexcept = default;
  ~OfProcess() {
    const Made* const made = made_.load(std::memory_order_acquire);
    if (made != nullptr && !made->guard.inherited()) delete made;
  }
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;

  /// The object. Throws what its constructor throws; the next call tries again.
  T& get() {
    Made* known = made_.load(std::memory_order_acquire);
    while (known == nullptr || known->guard.inherited()) {
      auto made = std::make_unique<Made>();
      if (made_.compare_exchange_strong(known, made.get())) known = made.release();
    }
    return known->object;
  }
  /// The object, if this process has made one, else null.
  T* known() noexcept {
    Made* const made = made_.load(std::memory_order_acquire);
    return made == nullptr || made->guard.inherited() ? nullptr : &made->object;
  }

 private:
  struct Made {
    ForkGuard guard;
    T object;
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace torch_distinput
