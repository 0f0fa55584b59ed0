// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distribute/sharding/stream_cut.h"
#include "distribute/sharding/stream_states.h"

namespace torch_distinput {

/// The streams of policy STREAMS and how they are dealt to the ranks.
struct StreamDeal {
  StreamCutPtr cut;
  std::int64_t batch = 0;            ///< rows of a global batch
  std::vector<std::int64_t> shares;  ///< rows of it that each rank makes of its streams
  StreamStates start = {};           ///< where this rank's streams stand when they are opened
};

/// Rows of the batches that `last_batch(node)` makes, which is not null.
std::int64_t rows_a_batch(const NodePtr& node);

/// Deals `count` streams to ranks in proportion to `shares`, the rows of a global batch that each rank makes:
/// stream s belongs to the rank that makes row floor(s * rows / count). Each rank gets consecutive streams,
/// none if it makes no row. The result for `rank`, before any stream has begun.
StreamStates streams_of_rank(std::int64_t count, const std::vector<std::int64_t>& shares, std::int64_t rank);

/// The pipeline of rank `rank`: the ops of `node` from its last batch on, with batches of the rank's share of
/// the rows, over the rank's streams from `deal.start` on.
NodePtr rank_pipeline(const NodePtr& node, const StreamDeal& deal, std::int64_t rank);

/// The cardinality of `node`, as far as it is known without reading files.
std::int64_t cardinality_in_streams(const NodePtr& node, const StreamDeal& deal);

/// How often a byte is read, and by whom.
std::string describe_deal(const StreamDeal& deal);

}  // namespace torch_distinput
