// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/steps/built_step.h"
#include "distribute/steps/distribution.h"

namespace torch_distinput {

/// One run over the steps of an epoch from a given position: fetches the rows of the planned steps. One
/// thread at a time. The destructor stops reading ahead.
class StepSource {
 public:
  virtual ~StepSource() = default;
  /// The next step; nullopt at the end, and at every later call. Throws errors of the pipeline, again at
  /// every later call, and exceptions of `interrupt_check()`.
  virtual std::optional<BuiltStep> next() = 0;
  /// Whether `next` would return at once.
  virtual bool ready() const { return false; }
  /// How often `next` had to wait for a step.
  virtual std::int64_t waits() const { return 0; }
  /// Whether what is read comes over a network, by position.
  virtual bool is_remote() const { return false; }
  /// Whether the source is still valid after `next` threw an interrupt; if not, open a new one.
  virtual bool survives_interrupt() const { return false; }
};

/// Where a stream is read: ahead of the consumer on a thread of the source, or in the caller of `next`.
enum class Reading { kAhead, kHere };

}  // namespace torch_distinput
