// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "execution/changed_weights.h"
#include "execution/kept_processes.h"
#include "torch_distinput/node.h"
#include "torch_distinput/options.h"

namespace torch_distinput {

class Executor;
class BufferPool;
struct Counters;

/// What the iterators of one pipeline run on; all iterators of the pipeline share it.
struct ExecutionContext {
  Options options;                     ///< of the whole pipeline
  std::shared_ptr<Executor> executor;  ///< the arena; never runs users' code
  std::shared_ptr<BufferPool> pool;    ///< batch memory
  std::shared_ptr<Counters> counters;  ///< what the iterator's `stats` return
  /// Ops whose work a device does after elements are copied to it: their iterators pass elements on
  /// unchanged.
  std::vector<const Node*> left_to_devices = {};
  /// True where other processes read the same stream: its order must be the same in all of them, even where
  /// the options allow any order.
  bool one_order = false;
  /// What runs users' functions in other processes.
  std::shared_ptr<KeptProcesses> processes = std::make_shared<KeptProcesses>();
  /// Set before an iterator is opened.
  ChangedWeights changed_weights = {};

  /// Whether an op that runs calls in parallel must pass on their results in order.
  bool keeps_order(bool op_is_deterministic) const {
    return one_order || (op_is_deterministic && options.deterministic.value_or(true));
  }
};

/// The context of a pipeline with these options: the process's arena (or one of `num_threads` threads), the
/// process's buffer pool and new counters. Throws c10::ValueError for options out of range.
std::shared_ptr<ExecutionContext> make_execution_context(const Options& options);

/// The context in which the last node of a pipeline is opened, for epoch `epoch` and base seed `seed`.
IterContext epoch_context(std::shared_ptr<ExecutionContext> execution, std::uint64_t seed, std::int64_t epoch,
                          bool stream_only);

}  // namespace torch_distinput
