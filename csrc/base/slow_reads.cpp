// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/slow_reads.h"

#include <utility>

#include <sys/resource.h>

namespace torch_distinput {
namespace {

thread_local std::int64_t noted_reads = 0;
thread_local const std::atomic<bool>* innermost = nullptr;

/// Blocks that the kernel had to get from a disk for this thread.
std::int64_t disk_reads() noexcept {
  ::rusage usage;
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

}  // namespace

void note_slow_read() noexcept { ++noted_reads; }

std::int64_t slow_reads() noexcept { return noted_reads + disk_reads(); }

bool reads_slowly() noexcept { return innermost != nullptr && innermost->load(std::memory_order_relaxed); }

SlowReadWatch::SlowReadWatch(std::atomic<bool>& was_slow) noexcept
    : was_slow_(was_slow), outer_(std::exchange(innermost, &was_slow)), before_(slow_reads()) {}

SlowReadWatch::~SlowReadWatch() {
  innermost = outer_;
  if (!was_slow_.load(std::memory_order_relaxed) && slow_reads() != before_)
    was_slow_.store(true, std::memory_order_relaxed);
}

}  // namespace torch_distinput
