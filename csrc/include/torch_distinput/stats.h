// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_distinput {

/// Counts of one iterator since it was opened, always on. Reading them is cheap.
struct Stats {
  /// Bin 0 of `wait_histogram` counts waits below 1 us, bin k those of [2^(k-1), 2^k) us, the last all longer
  /// ones.
  static constexpr std::size_t kWaitBins = 24;

  std::int64_t batches = 0;      ///< elements (or steps) handed out
  std::int64_t rows = 0;         ///< rows in them; an unbatched element is one row
  std::int64_t bytes = 0;        ///< bytes of tensor data in them
  std::int64_t waits = 0;        ///< times the consumer slept until the next element was ready
  std::int64_t allocations = 0;  ///< new blocks of the process's batch memory; reused blocks do not count
  std::int64_t skipped = 0;      ///< rows skipped by on_error="skip"
  std::int64_t rounds = 0;       ///< rounds of agreement with other processes
  std::int64_t copies = 0;       ///< parts of steps that were copied to accelerators
  std::int64_t copied_bytes = 0;

  // The consumer's time, in ns.
  std::int64_t wait_ns = 0;      ///< inside `next`: waits, and work that was not done ahead
  std::int64_t consumer_ns = 0;  ///< between the calls of `next`
  std::int64_t peer_ns = 0;      ///< part of `wait_ns`: this rank was ready, other ranks were not
  std::array<std::int64_t, kWaitBins> wait_histogram{};  ///< calls of `next` that returned, by their time

  // Time spent on the work itself, in ns, added up over all threads; none of it counts twice.
  std::int64_t read_ns = 0;    ///< reading files
  std::int64_t build_ns = 0;   ///< native work: gathering rows, decoding, batching
  std::int64_t python_ns = 0;  ///< users' functions, and waiting for Python's lock (GIL)
  std::int64_t copy_ns = 0;    ///< preparing and queueing copies to accelerators

  // The queues between the threads that read ahead and those that take: sums over all looks into one.
  std::int64_t queue_looks = 0;
  std::int64_t queue_ready = 0;  ///< items that lay ready
  std::int64_t queue_room = 0;   ///< items that could have lain ready

  /// Elements drawn from each dataset of the first `sample_from_datasets` up to the position of this
  /// iterator: since the start of the epoch, also where a state was restored. Empty without that op.
  std::vector<std::int64_t> sampled = {};
};

}  // namespace torch_distinput
