// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/batch_schedule.h"
#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// How rows become a batch.
struct JoinRows {
  /// Makes a batch of `rows` in memory of `pool`. Safe from any thread.
  std::function<Element(std::span<const Element> rows, BufferPool& pool)> join;
  /// Makes the same batch of a column as `RaggedPlan::fetch_ragged` returns it; empty: only `join` can. Safe
  /// from any thread.
  std::function<Element(Element column, BufferPool& pool)> join_ragged = {};
  /// `join` is `stack_rows`, so rows of a static layout may be written straight into the batch.
  bool stacks = false;
  /// A row in a batch depends on the other rows (padding), so parts must be cut from whole batches.
  bool whole = false;

  /// Calls `join`.
  Element operator()(std::span<const Element> rows, BufferPool& pool) const { return join(rows, pool); }
};

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
