// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <thread>

#include <sys/file.h>

namespace torch_distinput {

/// Locks or unlocks an open file (flock) without waiting. False where it is locked (errno EWOULDBLOCK), or
/// cannot be. The kernel unlocks what a process that has ended had locked.
inline bool try_lock(int file, int operation) noexcept { return ::flock(file, operation | LOCK_NB) == 0; }

/// Locks what others lock for moments only. False where that takes longer than a second: one of them may have
/// been stopped.
inline bool lock_soon(int file, int operation) {
  constexpr int kTries = 2000;
  for (int tries = 0; tries < kTries; ++tries) {
    if (try_lock(file, operation)) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return false;
}

}  // namespace torch_distinput
