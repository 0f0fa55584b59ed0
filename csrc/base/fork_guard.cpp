// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.h"

#include <atomic>

#include <pthread.h>

namespace torch_distinput {
namespace {

int fork_count() noexcept {
  static std::atomic<int> forks{0};
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

ForkGuard::ForkGuard() noexcept : forks_(fork_count()) {}

bool ForkGuard::inherited() const noexcept { return forks_ != fork_count(); }

}  // namespace torch_distinput
