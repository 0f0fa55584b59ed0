// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Counts of one iterator since it was opened, always on. Reading them is cheap.
struct Stats {
  std::int64_t batches = 0;      ///< elements (or steps) handed out
  std::int64_t rows = 0;         ///< rows in them; an unbatched element is one row
  std::int64_t bytes = 0;        ///< bytes of tensor data in them
  std::int64_t waits = 0;        ///< times the consumer slept until the next element was ready
  std::int64_t allocations = 0;  ///< new blocks of the process's batch memory; reused blocks do not count
  std::int64_t skipped = 0;      ///< rows skipped by on_error="skip"
  std::int64_t rounds = 0;       ///< rounds of agreement with other processes
};

}  // namespace torch_distinput
