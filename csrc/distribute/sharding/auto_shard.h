// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/names.h"
#include "torch_distinput/node.h"
#include "torch_distinput/options.h"

namespace torch_distinput {

/// What an auto-shard policy comes to for one worker.
struct Sharding {
  NodePtr node;             ///< what this worker reads
  AutoShardPolicy applied;  ///< kAuto never: it becomes kFile or kData
  std::string reason;       ///< a line: why
};

/// Applies `policy` for worker `worker` of `num_workers`:
///  - kOff: every worker reads everything;
///  - kFile: whole files, i mod num_workers, where every source reads files; else NotFoundError naming the
///    source. Fewer files than workers, but some: InvalidArgumentError with their number. Shuffles of files
///    keep their places, after the shard. One worker reads everything, whatever the source;
///  - kHint: `shard(kShardHint, ...)` becomes this worker's shard; too few elements as with kFile;
///  - kData: the node as it is: all workers read the same stream and each keeps its parts of it;
///  - kAuto: kFile where that is possible, else kData. Too few files: the records of an indexed source in
///  ranges,
///    else kData.
/// Throws InvalidArgumentError for a worker out of range.
Sharding auto_shard(const NodePtr& node, AutoShardPolicy policy, std::int64_t num_workers,
                    std::int64_t worker);

/// Whether `node` gets names of files, which sharding by file assigns.
bool takes_files(const Node& node);

}  // namespace torch_distinput
