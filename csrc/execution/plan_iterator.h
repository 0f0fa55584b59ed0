// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "execution/execution_context.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// An iterator that hands out the elements of `plan` in order. Reads nothing before the first `next`; then a
/// native plan is read ahead on the execution context's arena, a one that runs users' code on threads of its
/// own where read-ahead or parallel calls were asked for, else in the caller's thread.
///
/// `next` keeps the position when it throws; the error is thrown again at each later call until `load`.
/// The position is the element's and, where rows are known, the row's: a plan of the same rows in batches
/// of another size goes on at that row, first with the rest of the batch it lies in.
IteratorPtr make_plan_iterator(PlanPtr plan, std::shared_ptr<const ExecutionContext> execution);

}  // namespace torch_distinput
