// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Tells a source over a network which items of a run (elements, steps) will be read: those that begin to be
/// made, and the ones after them up to a horizon, each once and in order. Once the horizon is announced, goes
/// on when an eighth of it has begun, so that sources can join requests of neighbours. Needs O(1) memory.
/// Safe from any thread.
class ReadAnnouncer {
 public:
  /// Announces items [begin, end), a bounded number of them. They follow those of the call before; calls do
  /// not overlap.
  using Announce = std::function<void(std::int64_t begin, std::int64_t end)>;

  /// For items [`begin`, `end`) of about `item_bytes` bytes (0: not known) until some were measured.
  /// `horizon`: bytes to announce ahead, at least twice what begins to be made; 0: announces nothing before
  /// it is made.
  ReadAnnouncer(Announce announce, std::int64_t begin, std::int64_t end, std::int64_t horizon,
                std::int64_t item_bytes);

  /// `count` items from `first` on begin to be made. Returns after they were announced, by whichever thread.
  /// A std::exception of `announce` is dropped, because whoever makes the items gets it too; others are
  /// thrown.
  void begin(std::int64_t first, std::int64_t count);
  /// `count` items of `bytes` in all were made.
  void measure(std::int64_t count, std::int64_t bytes);

 private:
  std::int64_t ahead_of(std::int64_t count) const;

  const Announce announce_;
  const std::int64_t end_;
  const std::int64_t horizon_;

  std::mutex mutex_;
  std::int64_t next_;  ///< the first item that is not announced
  std::int64_t measured_items_;
  std::int64_t measured_bytes_;
};

/// Announces positions of `plan`, which must be those that are fetched.
ReadAnnouncer::Announce announce_elements(PlanPtr plan);

}  // namespace torch_distinput
