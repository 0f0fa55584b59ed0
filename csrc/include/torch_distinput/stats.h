// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// Counters of one iterator since it was opened. Always on; reading them is cheap.
struct Stats {
  std::int64_t batches = 0;      ///< elements (or steps) handed out
  std::int64_t rows = 0;         ///< rows in them; an unbatched element is one row
  std::int64_t bytes = 0;        ///< bytes of tensor data in them
  std::int64_t waits = 0;        ///< times the consumer slept for the next element
  std::int64_t allocations = 0;  ///< new blocks of batch memory (reused ones do not count)
  std::int64_t skipped = 0;      ///< rows skipped by on_error="skip"
  std::int64_t rounds = 0;       ///< rounds of agreement with other processes
};

}  // namespace torch_distinput
