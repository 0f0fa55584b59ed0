// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "torch_distinput/node.h"
#include "torch_distinput/options.h"

namespace torch_distinput {

class Executor;
class BufferPool;
struct Counters;

/// What the iterators of one pipeline run on. Made by `make_execution_context` in ops/.
struct ExecutionContext {
  Options options;                     ///< of the whole pipeline
  std::shared_ptr<Executor> executor;  ///< the arena; never runs users' code
  std::shared_ptr<BufferPool> pool;    ///< batch memory
  std::shared_ptr<Counters> counters;
  /// Ops whose work a device does after the copy of their elements: their iterators pass these on as they
  /// are.
  std::vector<const Node*> left_to_devices = {};
  /// Other processes read the same stream: everywhere it must have one order, whatever was allowed.
  bool one_order = false;

  /// Whether an op that runs calls side by side has to hand on their results in order.
  bool keeps_order(bool op_is_deterministic) const {
    return one_order || (op_is_deterministic && options.deterministic.value_or(true));
  }
};

/// What iterators of a pipeline with these options run on: the process's arena (or
/// one of `num_threads`), the process's buffer pool, fresh counters.
std::shared_ptr<ExecutionContext> make_execution_context(const Options& options);

/// The context of epoch `epoch` under base seed `seed`.
IterContext epoch_context(std::shared_ptr<ExecutionContext> execution, std::uint64_t seed, std::int64_t epoch,
                          bool stream_only);

}  // namespace torch_distinput
