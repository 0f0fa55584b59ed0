// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "torch_distinput/stats.h"

namespace torch_distinput {

/// A count for statistics. Safe from any thread; relaxed, so it orders no other memory accesses.
class Counter {
 public:
  void add(std::int64_t amount = 1) noexcept { value_.fetch_add(amount, std::memory_order_relaxed); }
  std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// What an iterator has done so far: the fields of `Stats` except `allocations`, which `BufferPool` counts.
/// Safe from any thread.
struct Counters {
  Counter batches, rows, bytes, waits, skipped, rounds;

  /// The present values. They are read one after the other, so they may not belong to one moment.
  Stats stats() const noexcept {
    return {.batches = batches.value(),
            .rows = rows.value(),
            .bytes = bytes.value(),
            .waits = waits.value(),
            .skipped = skipped.value(),
            .rounds = rounds.value()};
  }
};

}  // namespace torch_distinput
