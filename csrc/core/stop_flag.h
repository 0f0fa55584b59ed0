// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "base/current_poll.h"
#include "core/stop_scope.h"

namespace torch_distinput {

/// For work that waits for something from outside (a network) on threads of others: ends its waits when it is
/// no longer wanted. Safe from any thread.
class StopFlag {
 public:
  /// From now on waits inside of `run` throw Stopped, within about 50 ms.
  void set() noexcept { stopped_.store(true, std::memory_order_relaxed); }

  /// Returns what `work()` returns. Where the caller's waits are already watched, only by that watch: this is
  /// the consumer's own thread, whose Ctrl-C counts, and which cannot call `set` meanwhile.
  template <class Work>
  auto run(const Work& work) const {
    if (current_poll()) return work();
    const StopScope scope([this] { return stopped_.load(std::memory_order_relaxed); });
    return work();
  }

 private:
  std::atomic<bool> stopped_{false};
};

}  // namespace torch_distinput
