// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/counters.h"

namespace torch_distinput {

/// Bytes of objects that this process has asked for. Safe from any thread; a forked child counts on.
struct ReadCounts {
  Counter asked;
  Counter unread;  ///< that came and nobody read

  static ReadCounts& of_process() noexcept {
    static ReadCounts counts;
    return counts;
  }
};

}  // namespace torch_distinput
