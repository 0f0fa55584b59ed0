// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/names.h"
#include "distribute/sharding/stream_cut.h"
#include "torch_distinput/node.h"
#include "torch_distinput/options.h"

namespace torch_distinput {

/// The result of an auto-shard policy for one rank.
struct Sharding {
  NodePtr node;               ///< the pipeline that this rank reads
  AutoShardPolicy applied;    ///< never kAuto, which becomes kFile or kData
  std::string reason;         ///< why, in one line, for `explain()`
  StreamCutPtr streams = {};  ///< how kStreams cuts `node`, which is the user's then; else null
};

/// Applies `policy` for rank `rank` of `num_ranks`:
///  - kOff: every rank reads everything.
///  - kFile: a rank reads the files whose index mod `num_ranks` is `rank`. Throws NotFoundError, which
///    names the source, if a source does not read files, and InvalidArgumentError, which has their number,
///    for fewer files than ranks, but at least one. Shuffles of files stay in the pipeline, after the
///    shard. With one rank, any source will do, and it is read whole.
///  - kHint: `shard(kShardHint, ...)` becomes this rank's shard. Throws InvalidArgumentError for fewer
///    elements than ranks, but at least one. Without such an op the result is kOff.
///  - kData: the node is unchanged. All ranks read the same stream, and each keeps its parts.
///  - kStreams: the node is cut into streams (`cut_streams`), to be dealt to the ranks; kData where it cannot
///    be cut, or is read by position anyway.
///  - kAuto: kFile if every source reads files, else kData. With fewer files than ranks, a single indexed
///    reader is assigned in ranges of records unless an op counts records; all else as kData.
/// Throws InvalidArgumentError for a rank out of range. Reads no data. Safe from any thread.
Sharding auto_shard(const NodePtr& node, AutoShardPolicy policy, std::int64_t num_ranks, std::int64_t rank);

}  // namespace torch_distinput
