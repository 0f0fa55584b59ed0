// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// How a global batch is cut over the replicas. `kTf`: whichever splitter
/// tf.distribute would run. `kBalanced`: contiguous, in order, sizes that differ
/// by at most one row.
enum class Split { kTf, kBalanced };

/// What happens to a short last batch and to replicas without rows.
enum class Tail {
  kZeroRows,    ///< split as it is; zero-row parts
  kPadded,      ///< parts filled to their full share with their own last row; `valid` counts
  kRepeat,      ///< filled with the first rows of the epoch, all counted
  kDrop,        ///< not delivered
  kUntilFirst,  ///< delivered while every replica has a row
};

/// How many input pipelines there are: one for each process, or one for each replica.
enum class ReplicationMode { kPerWorker, kPerReplica };

/// Options of a distributed dataset (names as in tf.distribute.InputOptions; the
/// last four are this library's).
struct TDI_API InputOptions {
  bool fetch_to_device = true;
  ReplicationMode replication_mode = ReplicationMode::kPerWorker;
  bool place_dataset_on_device = false;
  std::int64_t per_replica_buffer_size = 1;  ///< k: about 1 + 2k steps are read ahead; 0: none
  Split split = Split::kTf;
  Tail tail = Tail::kZeroRows;
  std::optional<std::vector<double>> weights = {};  ///< one per replica, balanced split only
  double peer_timeout = 300.0;                      ///< seconds
};

}  // namespace torch_distinput
