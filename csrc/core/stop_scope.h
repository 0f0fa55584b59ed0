// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "torch_distinput/interrupt.h"

namespace torch_distinput {

/// Ends a wait whose end nobody needs any more. No std::exception: it is no failure of a row.
struct Stopped {};

/// For a thread that reads ahead: while one lives, waits of this thread in the library (for a pipe, for
/// another thread) end with Stopped soon after `stopped` has become true, so that whoever joins the thread
/// does not wait for data.
class StopScope {
 public:
  explicit StopScope(std::function<bool()> stopped)
      : scope_([stopped = std::move(stopped)] {
          if (stopped()) throw Stopped();
        }) {}

 private:
  InterruptScope scope_;
};

}  // namespace torch_distinput
