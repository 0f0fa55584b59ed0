// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "distribute/steps/built_step.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// What is left of the stream that a worker of an earlier run read.
struct ResumedStream {
  NodePtr node;          ///< as that worker read it
  Start start;           ///< where it stopped
  std::uint64_t number;  ///< what told its rows from those of other workers
};

/// Which elements of the streams are taken: those whose number mod `of` is `index`.
struct Share {
  std::int64_t index = 0;
  std::int64_t of = 1;
  bool shared = false;  ///< some workers share a stream, if not this one
};

/// What is left of `streams`, one after the other: for a run on another number of workers. The streams'
/// random ops draw as they did before. `like` is the pipeline of a worker here, whose type it has. No plan.
NodePtr resumed_streams_node(NodePtr like, std::vector<ResumedStream> streams, Share share);

/// The place before the first element of any such node.
Upstream start_of_resumed_streams();

}  // namespace torch_distinput
