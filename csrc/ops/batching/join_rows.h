// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "kernels/rows.h"
#include "runtime/buffer_pool.h"

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

}  // namespace torch_distinput
