// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// How rows become a batch.
struct JoinRows {
  std::function<Element(std::span<const Element> rows, BufferPool& pool)> join;  ///< any thread may call it
  bool stacks = false;  ///< it is `stack_rows`, so that rows of a static layout are written side by side
  /// A row depends on the others of its batch, so that parts are cut from whole batches.
  bool whole = false;

  Element operator()(std::span<const Element> rows, BufferPool& pool) const { return join(rows, pool); }
};

/// What the ops that put consecutive rows into batches have in common.
struct Batching {
  std::int64_t batch_size;
  bool drop_remainder;
  JoinRows join;
  std::shared_ptr<BufferPool> pool;
};

PlanPtr batch_plan(PlanPtr rows, const Batching& batching);
IteratorPtr batch_iterator(IteratorPtr rows, Batching batching);

}  // namespace torch_distinput
