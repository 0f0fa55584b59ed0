// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/batch_schedule.h"
#include "ops/batching/join_rows.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// The parameters of an op that makes batches of consecutive rows.
struct Batching {
  BatchSchedule sizes;               ///< rows of each batch
  bool drop_remainder;               ///< whether a short last batch is dropped
  JoinRows join;                     ///< how rows become a batch
  std::shared_ptr<BufferPool> pool;  ///< the memory of batches
};

/// Returns the plan of batches of `rows`.
PlanPtr batch_plan(PlanPtr rows, const Batching& batching);
/// Returns an iterator over batches of `rows`, whose state is that of `rows`, with the number of batches
/// where their sizes change.
IteratorPtr batch_iterator(IteratorPtr rows, Batching batching);

}  // namespace torch_distinput
