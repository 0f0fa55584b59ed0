// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

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

/// Sets the lock of an open file description on bytes of a file, without waiting.
inline bool set_range_lock(int file, int type, std::uint64_t offset, std::uint64_t size) noexcept {
  struct ::flock lock{};
  lock.l_type = static_cast<decltype(lock.l_type)>(type);
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<::off_t>(offset);
  lock.l_len = static_cast<::off_t>(size);
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

/// Locks bytes of a file that is open for writing, against all other descriptors that were opened for it, of
/// this process too, without waiting. `size` 0: all that follow. False where some of them are locked
/// (`is_locked_range`), or cannot be. The kernel unlocks them when the last process with the descriptor ends.
inline bool try_lock_range(int file, std::uint64_t offset, std::uint64_t size) noexcept {
  return set_range_lock(file, F_WRLCK, offset, size);
}
/// Whether errno `code` of `try_lock_range` says that others have locked them.
inline bool is_locked_range(int code) noexcept { return code == EAGAIN || code == EACCES; }
/// Unlocks them: explicitly, because a child that was forked meanwhile has the descriptor, too.
inline void unlock_range(int file, std::uint64_t offset, std::uint64_t size) noexcept {
  set_range_lock(file, F_UNLCK, offset, size);
}

}  // namespace torch_distinput
