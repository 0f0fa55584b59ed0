// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "distribute/steps/built_step.h"
#include "distribute/steps/distribution.h"

namespace torch_distinput {

/// One run over the steps of an epoch from a given place on: fetches what the schedule names. One thread
/// at a time; destroying it stops what runs ahead.
class StepSource {
 public:
  virtual ~StepSource() = default;
  /// The next step; nullopt at the end, then and later. An error of the pipeline is thrown at every later
  /// call too.
  virtual std::optional<BuiltStep> next() = 0;
  /// Whether `next` would return at once.
  virtual bool ready() const { return false; }
  /// How often `next` had to sleep.
  virtual std::int64_t waits() const { return 0; }
  /// Whether an interrupt that `next` threw left everything as it was.
  virtual bool survives_interrupt() const { return false; }
};

/// Who reads a stream: a thread of the path's own, ahead of the consumer, or the thread that calls `next`.
enum class Reading { kAhead, kHere };

}  // namespace torch_distinput
