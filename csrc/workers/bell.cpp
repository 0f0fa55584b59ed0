// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/bell.h"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

/// How often a thread yields before it sleeps. A ring often comes meanwhile; noticing it then costs a tenth
/// of sleeping and being woken.
constexpr int kYields = 20;
/// A yield that takes longer shows that other threads need this processor. The next waits then sleep at once,
/// because a woken sleeper gets the processor before they give it back.
constexpr std::chrono::microseconds kLongYield{50};
constexpr int kWaitsWithoutYields = 64;

}  // namespace

void Bell::ring() noexcept {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool Bell::rings_soon(std::uint32_t heard) const noexcept {
  thread_local int waits_without_yields = 0;
  if (waits_without_yields > 0) {
    --waits_without_yields;
    return false;
  }
  auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < kYields; ++i) {
    ::sched_yield();
    if (listen() != heard) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now - before > kLongYield) {
      waits_without_yields = kWaitsWithoutYields;
      return false;
    }
    before = now;
  }
  return false;
}

void Bell::wait(std::uint32_t heard, std::chrono::nanoseconds limit) noexcept {
  if (limit.count() <= 0 || rings_soon(heard)) return;
  const timespec time{static_cast<std::time_t>(limit.count() / 1'000'000'000),
                      static_cast<long>(limit.count() % 1'000'000'000)};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &rings_, FUTEX_WAIT, heard, &time, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace torch_distinput
