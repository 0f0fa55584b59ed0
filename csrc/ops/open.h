// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/engine.h"
#include "torch_distinput/node.h"
#include "torch_distinput/options.h"

namespace torch_distinput {

/// What cursors of a pipeline with these options run on: the process's arena (or
/// one of `num_threads`), the process's buffer pool, fresh counters.
std::shared_ptr<Engine> make_engine(const Options& options);

/// A cursor over `node`: its plan, run ahead by many threads, where it has one
/// (and `context.stream_only` is false), else the node's own cursor. Ops open
/// their inputs with it, so a plan below a stream op still runs as a plan.
IteratorPtr open_iterator(const NodePtr& node, const IterContext& context);

/// A cursor and its lane. One that runs a plan keeps its position when `next` throws.
struct Cursor {
  IteratorPtr iterator;
  bool runs_plan = false;
};
Cursor open_cursor(const NodePtr& node, const IterContext& context);

/// The context of epoch `epoch` under base seed `seed`.
IterContext epoch_context(std::shared_ptr<Engine> engine, std::uint64_t seed, std::int64_t epoch,
                          bool stream_only);

}  // namespace torch_distinput
