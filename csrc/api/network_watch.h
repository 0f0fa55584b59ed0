// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/counters.h"
#include "remote/engine.h"
#include "remote/read_counts.h"
#include "torch_distinput/stats.h"

namespace torch_distinput {

/// Tells what the process has read over networks since this was made. Safe from any thread.
class NetworkWatch {
 public:
  /// `counters`: of an iterator; unset where it has read nothing so.
  std::optional<NetworkStats> stats(const Counters& counters) const;

 private:
  EngineCounts engine_ = Engine::counts_of_process();
  std::int64_t asked_ = ReadCounts::of_process().asked.value();
  std::int64_t unread_ = ReadCounts::of_process().unread.value();
  std::int64_t cached_ = ReadCounts::of_process().cached.value();
  std::int64_t cached_blocks_ = ReadCounts::of_process().cached_blocks.value();
  std::int64_t damaged_blocks_ = ReadCounts::of_process().damaged_blocks.value();
};

}  // namespace torch_distinput
