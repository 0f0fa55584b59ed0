// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/counters.h"

namespace torch_distinput {

/// Bytes of objects that this process has asked for. Safe from any thread; a forked child counts on.
struct ReadCounts {
  SpreadCounter cached;  ///< that a cache on disk had: nobody was asked for them
  Counter asked;
  Counter unread;          ///< that came and nobody read
  Counter cached_blocks;   ///< that were written to it
  Counter damaged_blocks;  ///< of it that were damaged

  static ReadCounts& of_process() noexcept {
    static ReadCounts counts;
    return counts;
  }
};

}  // namespace torch_distinput
