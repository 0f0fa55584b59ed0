// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "execution/execution_context.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// An iterator that returns the elements of `plan` in order. Reads nothing before the first `next`. A native
/// plan is then read ahead on the execution context's arena, one that waits for files on a thread pool of its
/// own. A plan that runs users' code is read ahead on a thread pool where read-ahead or parallel calls were
/// asked for, else it runs in the caller's thread.
///
/// `next` keeps the position when it throws; the error is thrown again at each later call until `load`. The
/// position is the element's and, where rows are known, the row's: after a restore, a plan of the same rows
/// in batches of another size goes on at that row, first with the rest of the batch that holds it.
IteratorPtr make_plan_iterator(PlanPtr plan, std::shared_ptr<const ExecutionContext> execution);

/// The plan of an iterator that `make_plan_iterator` made; lives as long as the iterator.
const Plan& plan_of(const Iterator& iterator);

/// Begins to read what the first `next` of such an iterator would read ahead over a network; where users'
/// code makes elements, or `prefetch_bytes` bounds them, asks for their bytes only. Does not wait for them.
/// Reads no local data.
void begin_reading(Iterator& iterator);

}  // namespace torch_distinput
