// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "distribute/built_step.h"
#include "distribute/distribution.h"
#include "distribute/plan_rows.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// One run over the steps of an epoch from a given place on: fetches what the schedule names. One thread
/// at a time; destroying it stops what runs ahead.
class Lane {
 public:
  virtual ~Lane() = default;
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

/// The rows of this epoch by plan; null where there is no plan or it does not know them.
std::shared_ptr<PlanRows> plan_rows(const Distribution& distribution, const IterContext& context);

/// Who reads a stream: a thread of the lane's own, ahead of the consumer, or the thread that calls `next`.
enum class Reading { kAhead, kHere };

/// Opens the plan lane where the pipeline has a plan that knows its rows, else the stream lane. `shipping`
/// moves parts as soon as they are there; null: they stay on the host.
std::unique_ptr<Lane> open_lane(const DistributionPtr& distribution, const IterContext& context,
                                const Start& start, const ShippingPtr& shipping,
                                Reading reading = Reading::kAhead);

}  // namespace torch_distinput
