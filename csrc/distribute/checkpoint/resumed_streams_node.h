// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "distribute/steps/built_step.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The rest of the stream that a rank of an earlier run read.
struct ResumedStream {
  NodePtr node;  ///< the pipeline that this rank read
  Start start;   ///< where it stopped
  /// Its `IterContext::stream`, which distinguishes its rows from those of other ranks.
  std::uint64_t number;
};

/// The elements of a stream that one rank takes: those whose number mod `of` is `index`.
struct Share {
  std::int64_t index = 0;
  std::int64_t of = 1;
  bool shared = false;  ///< whether any ranks share a stream, even if this one does not
};

/// A node that yields this rank's share of what is left of `streams`, one stream after the other, for a run
/// on another number of ranks. Random ops of the streams draw as they did before. `like`: the pipeline of a
/// rank of this run, whose spec and traits the node has. It has no plan.
NodePtr resumed_streams_node(NodePtr like, std::vector<ResumedStream> streams, Share share);

/// The position before the first element of any such node.
Upstream start_of_resumed_streams();

}  // namespace torch_distinput
