// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "torch_distinput/options.h"

namespace torch_distinput {

class Executor;
class BufferPool;
struct Counters;
class Node;

/// What the cursors of one pipeline run on. Made by `make_engine` in ops/.
struct Engine {
  Options options;                     ///< of the whole pipeline
  std::shared_ptr<Executor> executor;  ///< the arena; never runs foreign code
  std::shared_ptr<BufferPool> pool;    ///< batch memory
  std::shared_ptr<Counters> counters;
  /// Ops whose work a device does behind the copy of their elements: their cursors pass these on as they are.
  std::vector<const Node*> left_to_devices = {};
  /// Other processes read the same stream: everywhere it must have one order, whatever was allowed.
  bool one_order = false;

  /// Whether an op that runs calls side by side has to hand on their results in order.
  bool keeps_order(bool op_is_deterministic) const {
    return one_order || (op_is_deterministic && options.deterministic.value_or(true));
  }
};

}  // namespace torch_distinput
