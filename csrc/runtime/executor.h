// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace torch_distinput {

/// Runs background tasks. Methods are safe from any thread.
///
/// A task must not throw: an exception that leaves it ends the process (std::terminate).
class Executor {
 public:
  virtual ~Executor() = default;

  /// Queues `task`, which runs later on another thread, at most once. An executor that is destroyed first may
  /// drop it, so callers must not depend on a queued task to start.
  virtual void submit(std::function<void()> task) = 0;

  /// How many tasks may run at the same time. 0: there are no threads, `submit` must not be called and the
  /// caller does the work itself.
  virtual int concurrency() const noexcept = 0;

  /// Whether tasks wait for a thread, so that one that takes long should let them have its own. True where
  /// that is not known.
  virtual bool has_waiting() const { return true; }
};

}  // namespace torch_distinput
