// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// Ends a wait whose result is no longer needed. Not a std::exception, so that it does not count as the
/// failure of a row.
struct Stopped {};

/// For a thread that reads ahead. While one lives, waits of this thread in the library (for a pipe, for
/// another thread) throw Stopped soon after `stopped` returns true, so that joining the thread does not wait
/// for data.
class StopScope {
 public:
  /// `stopped` is called on this thread about every 50 ms of a wait.
  explicit StopScope(std::function<bool()> stopped)
      : scope_([stopped = std::move(stopped)] {
          if (stopped()) throw Stopped();
        }) {}

 private:
  InterruptScope scope_;
};

}  // namespace torch_distinput
