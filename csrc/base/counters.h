// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace torch_distinput {

/// A count for statistics. Safe from any thread; relaxed, so it orders no other memory accesses.
class Counter {
 public:
  void add(std::int64_t amount = 1) noexcept { value_.fetch_add(amount, std::memory_order_relaxed); }
  std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// The values of `Counters`. The fields are read one after the other, so they may not belong to one moment.
struct CountersSnapshot {
  std::int64_t batches = 0;  ///< Elements (or steps) handed to the consumer.
  std::int64_t rows = 0;     ///< Rows in them.
  std::int64_t bytes = 0;    ///< Bytes in them.
  std::int64_t waits = 0;    ///< Times the consumer slept until an element was ready.
  std::int64_t skipped = 0;  ///< Rows or batches left out by `on_error="skip"`.
  std::int64_t rounds = 0;   ///< Rounds of agreement with other processes.
};

/// What an iterator has done so far. Allocations are counted by `BufferPool::stats`. Safe from any thread.
struct Counters {
  Counter batches, rows, bytes, waits, skipped, rounds;

  /// The present values.
  CountersSnapshot snapshot() const noexcept {
    return {.batches = batches.value(),
            .rows = rows.value(),
            .bytes = bytes.value(),
            .waits = waits.value(),
            .skipped = skipped.value(),
            .rounds = rounds.value()};
  }
};

}  // namespace torch_distinput
