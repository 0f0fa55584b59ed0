// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

#include <sys/mman.h>

/// \file
/// The memory limit: what no loader can beat, because it does nothing but copy rows that are already
/// chosen into memory that is already touched. Knows neither torch nor the library.

namespace limit {

/// One leaf of the rows: row r is at `source + r * row_bytes`.
struct Leaf {
  const char* source;
  std::int64_t row_bytes;
};

/// Copies rows `order[0], order[1], ...` of `leaf` one after the other.
inline void gather(const Leaf& leaf, std::span<const std::int64_t> order, char* destination) {
  // Far enough ahead to hide a cache miss; the hardware follows long rows by itself after their first KiB.
  constexpr std::size_t kAhead = 8;
  constexpr std::int64_t kLine = 64;
  constexpr std::int64_t kMaxPrefetched = 1024;
  const std::int64_t prefetched = leaf.row_bytes < kMaxPrefetched ? leaf.row_bytes : kMaxPrefetched;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) {
      const char* const row = leaf.source + order[i + kAhead] * leaf.row_bytes;
      for (std::int64_t byte = 0; byte < prefetched; byte += kLine) __builtin_prefetch(row + byte);
    }
    std::memcpy(destination, leaf.source + order[i] * leaf.row_bytes,
                static_cast<std::size_t>(leaf.row_bytes));
    destination += leaf.row_bytes;
  }
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<char, Free>;

/// Memory whose pages were touched; huge pages where the system gives them.
inline Buffer warm_memory(std::int64_t bytes) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage;
  Buffer memory(static_cast<char*>(std::aligned_alloc(kHugePage, size)));
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory.get(), size, MADV_HUGEPAGE);
  std::memset(memory.get(), 0, size);
  return memory;
}

/// Warm memory for `buffers` batches, used in turn.
class Batches {
 public:
  Batches(std::span<const Leaf> leaves, std::int64_t batch, std::int64_t buffers)
      : leaves_(leaves), batch_(batch) {
    for (std::int64_t i = 0; i < buffers; ++i) {
      for (const Leaf& leaf : leaves) memory_.push_back(warm_memory(batch * leaf.row_bytes));
    }
  }

  /// Gathers the whole batches of `order` that start at batch `first`, every `stride`-th.
  void fill(std::span<const std::int64_t> order, std::int64_t first, std::int64_t stride) {
    const auto rows = static_cast<std::size_t>(batch_);
    std::size_t next = 0;
    for (auto begin = static_cast<std::size_t>(first) * rows; begin + rows <= order.size();
         begin += static_cast<std::size_t>(stride) * rows) {
      for (const Leaf& leaf : leaves_) {
        gather(leaf, order.subspan(begin, rows), memory_[next].get());
        next = next + 1 == memory_.size() ? 0 : next + 1;
      }
    }
  }

 private:
  std::span<const Leaf> leaves_;
  std::int64_t batch_;
  std::vector<Buffer> memory_;
};

/// Seconds on the clock, and of CPU time on all threads of the process.
struct Cost {
  double wall;
  double cpu;
};

/// What it costs to gather all whole batches of `order`: thread t of `threads` takes every `threads`-th batch
/// and has `buffers` batches of memory of its own.
inline Cost measure(std::span<const Leaf> leaves, std::span<const std::int64_t> order, std::int64_t batch,
                    std::int64_t threads, std::int64_t buffers) {
  std::vector<Batches> memory;
  for (std::int64_t t = 0; t < threads; ++t) memory.emplace_back(leaves, batch, buffers);
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (std::int64_t t = 1; t < threads; ++t) {
    others.emplace_back([&, t] { memory[static_cast<std::size_t>(t)].fill(order, t, threads); });
  }
  memory.front().fill(order, 0, threads);
  for (std::thread& other : others) other.join();
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {wall, static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

}  // namespace limit
