// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "execution/execution_context.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// An iterator over `node`: over its plan, read ahead by many threads, where it has one (and
/// `context.stream_only` is false), else the node's own. Ops open their inputs with it, so the plan of an
/// input of a sequential op still runs as a plan. Throws what opening the ops throws.
IteratorPtr open_iterator(const NodePtr& node, const IterContext& context);

/// An iterator and its path. One that runs a plan keeps its position when `next` throws.
struct OpenedIterator {
  IteratorPtr iterator;
  bool runs_plan = false;  ///< the random-access path
};
/// As `open_iterator`, with the path that was chosen.
OpenedIterator open_input(const NodePtr& node, const IterContext& context);

}  // namespace torch_distinput
