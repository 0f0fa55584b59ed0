// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/arena_cpus.h"

#include <atomic>

#include <sched.h>

namespace torch_distinput {
namespace {

/// Null: the threads were never placed. Sets are leaked, because threads may be reading one.
std::atomic<const cpu_set_t*> wanted = nullptr;

/// The CPUs that this process had when it placed its threads first.
const cpu_set_t& cpus_of_process() {
  static const cpu_set_t cpus = [] {
    cpu_set_t own;
    CPU_ZERO(&own);
    ::sched_getaffinity(0, sizeof(own), &own);
    return own;
  }();
  return cpus;
}

}  // namespace

void keep_arenas_on(const std::vector<int>& cpus) {
  cpu_set_t listed;
  CPU_ZERO(&listed);
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &listed);
  }
  auto* const own = new cpu_set_t;
  CPU_AND(own, &listed, &cpus_of_process());
  if (CPU_COUNT(own) == 0) *own = cpus_of_process();
  wanted.store(own, std::memory_order_release);
}

bool arenas_are_kept() noexcept { return wanted.load(std::memory_order_acquire) != nullptr; }

void place_arena_thread() noexcept {
  static thread_local const cpu_set_t* placed = nullptr;
  const cpu_set_t* const now = wanted.load(std::memory_order_acquire);
  if (now == placed) return;
  placed = now;
  ::sched_setaffinity(0, sizeof(*now), now);  // fails only where these CPUs were taken away meanwhile
}

}  // namespace torch_distinput
