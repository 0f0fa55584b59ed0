// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace torch_distinput {

/// What was read over networks since an iterator was opened. All iterators of a process read through one
/// engine, which counts for all of them; only `wait_ns` is the iterator's own. Times are in ns.
struct NetworkStats {
  std::int64_t wait_ns = 0;  ///< in which threads waited for objects, summed over them; part of `read_ns`
  std::int64_t bytes = 0;    ///< that servers were asked for
  std::int64_t wasted_bytes =
      0;  ///< that came and nobody read: gaps between ranges, errors, and what was dropped
  std::int64_t requests = 0;
  std::int64_t retries = 0;        ///< of these, repetitions
  std::int64_t hedges = 0;         ///< of these, doubled ones, because the first was late
  std::int64_t hedges_won = 0;     ///< of these, those that answered first
  std::int64_t throttled = 0;      ///< answers that asked for fewer requests (429, 503)
  std::int64_t stalled = 0;        ///< requests that were given up, as no bytes came, or hardly any
  std::int64_t busy_ns = 0;        ///< in which requests were under way
  std::int64_t full_ns = 0;        ///< part of it: the limit of a server kept others waiting
  std::int64_t request_ns = 0;     ///< of all requests, added up
  std::int64_t answer_ns = 0;      ///< part of it: before the first byte
  std::int64_t answer_p50 = 0;     ///< time to the first byte of half of the requests at most, within a tenth
  std::int64_t answer_p99 = 0;     ///< that of 99 in 100
  std::int64_t limit = 0;          ///< requests that may run at a time now, at the server that is asked most
  std::int64_t cached_bytes = 0;   ///< that the cache on disk had, so that no server was asked for them
  std::int64_t cached_blocks = 0;  ///< that were written to it
  std::int64_t damaged_blocks = 0;  ///< of it that were damaged: their bytes were asked for again
};

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

  // The parts of these that fell into `wait_ns`: what threads did while the consumer waited.
  std::int64_t waited_read_ns = 0;
  std::int64_t waited_build_ns = 0;
  std::int64_t waited_python_ns = 0;
  std::int64_t waited_copy_ns = 0;

  // The queues between the threads that read ahead and those that take: sums over all looks into one.
  std::int64_t queue_looks = 0;
  std::int64_t queue_ready = 0;  ///< items that lay ready
  std::int64_t queue_room = 0;   ///< items that could have lain ready

  /// Elements drawn from each dataset of the first `sample_from_datasets` up to the position of this
  /// iterator: since the start of the epoch, also where a state was restored. Empty without that op, and
  /// after a full shuffle of it. Under policy STREAMS, those of this rank's streams: all ranks together have
  /// them all.
  std::vector<std::int64_t> sampled = {};

  /// Unset where this iterator has read nothing over a network.
  std::optional<NetworkStats> network = {};
};

}  // namespace torch_distinput
