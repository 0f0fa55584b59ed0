// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/busy_time.h"
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

/// A count that many threads add to often: each adds to a cell of its own, or of few, so that none waits for
/// the memory of another.
class SpreadCounter {
 public:
  void add(std::int64_t amount = 1) noexcept { cells_[cell_of_thread()].count.add(amount); }
  std::int64_t value() const noexcept {
    std::int64_t sum = 0;
    for (const Cell& cell : cells_) sum += cell.count.value();
    return sum;
  }

 private:
  static constexpr std::size_t kCells = 8;
  struct alignas(64) Cell {
    Counter count;
  };
  static std::size_t cell_of_thread() noexcept {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t cell = threads.fetch_add(1, std::memory_order_relaxed) % kCells;
    return cell;
  }

  std::array<Cell, kCells> cells_;
};

/// What a thread does for an iterator. `kNext`: time in the consumer's call not counted as another stage.
enum class Stage { kNext, kBuild, kRead, kPython, kCopy, kWait };
inline constexpr std::size_t kStages = 6;

/// What an iterator has done so far: the fields of `Stats` except `allocations`, which `BufferPool` counts,
/// `network`, which counts for the process, and the consumer's own times. Safe from any thread.
struct Counters {
  Counter batches, rows, bytes, waits, skipped, rounds, copies, copied_bytes, peer_ns;
  Counter queue_looks, queue_ready, queue_room;
  Counter network_ns;
  std::atomic<bool> reads_objects{false};  ///< some bytes are of objects of stores
  std::array<Counter, kStages> stage_ns;   ///< by `Stage`, of scopes that have ended
  std::array<BusyTime, kStages> busy;      ///< by `Stage`

  /// The present values. They are read one after the other, so they may not belong to one moment.
  Stats stats() const noexcept {
    const auto ns = [this](Stage stage) { return stage_ns[static_cast<std::size_t>(stage)].value(); };
    return {.batches = batches.value(),
            .rows = rows.value(),
            .bytes = bytes.value(),
            .waits = waits.value(),
            .skipped = skipped.value(),
            .rounds = rounds.value(),
            .copies = copies.value(),
            .copied_bytes = copied_bytes.value(),
            .peer_ns = peer_ns.value(),
            .read_ns = ns(Stage::kRead),
            .build_ns = ns(Stage::kBuild) + ns(Stage::kNext),
            .python_ns = ns(Stage::kPython),
            .copy_ns = ns(Stage::kCopy),
            .queue_looks = queue_looks.value(),
            .queue_ready = queue_ready.value(),
            .queue_room = queue_room.value()};
  }
};

}  // namespace torch_distinput
