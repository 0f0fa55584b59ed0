// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace torch_distinput {

void Bell::ring() noexcept {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Bell::wait(std::uint32_t heard, std::chrono::nanoseconds limit) noexcept {
  if (limit.count() <= 0) return;
  const timespec time{static_cast<std::time_t>(limit.count() / 1'000'000'000),
                      static_cast<long>(limit.count() % 1'000'000'000)};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &rings_, FUTEX_WAIT, heard, &time, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace torch_distinput
