// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/row_cost.h"

namespace torch_distinput {

/// How a global batch is cut over the replicas. `kTf`: by the splitter that tf.distribute would run.
/// `kBalanced`: into contiguous parts, in order, whose sizes differ by at most one row. `kLanes`: into parts
/// of the same sizes, but by the lanes of a shuffle of blocks: the rows of the first lanes to the first part,
/// and so on, so that a block is read by one process, and by two where their parts meet.
enum class Split { kTf, kBalanced, kLanes };

/// What happens to a short last batch and to replicas without rows.
enum class Tail {
  kZeroRows,  ///< the batch is split as it is; a replica without rows gets a zero-row part
  kPadded,    ///< a part is filled to its full share with its own last row, which `StepInfo::valid` excludes
  kRepeat,    ///< parts are filled with the first rows of the epoch, which all count
  kDrop,      ///< the batch is not delivered
  kUntilFirst,  ///< steps are delivered while every replica has a row
  /// A last step of which a replica would get no row is joined to the step before it and dealt out evenly;
  /// as `kZeroRows` where even the two have no row for every replica.
  kMerge,
};

/// How many input pipelines there are: one for each process, or one for each replica.
enum class ReplicationMode { kPerWorker, kPerReplica };

/// Options of a distributed dataset. Names are those of tf.distribute.InputOptions; those from `split` on are
/// this library's. Strategies throw c10::ValueError naming the field for a value out of range or a
/// combination without a meaning.
struct TDI_API InputOptions {
  bool fetch_to_device = true;  ///< copy parts to their replica's device; false: leave them in host memory
  /// kPerReplica: only for `distribute_datasets_from_function` of MirroredStrategy.
  ReplicationMode replication_mode = ReplicationMode::kPerWorker;
  /// As in tf.distribute, only with kPerReplica and without `fetch_to_device`: the pipelines run on the host,
  /// and their parts are copied to their replica's device.
  bool place_dataset_on_device = false;
  std::int64_t per_replica_buffer_size = 1;  ///< k: about 1 + 2k steps are read ahead; 0: none
  Split split = Split::kTf;
  Tail tail = Tail::kZeroRows;
  /// One share for each replica of all processes, positive and finite; balanced split only.
  std::optional<std::vector<double>> weights = {};
  /// What rows cost: the rows of `balance_window` global batches are exchanged so that in each step the
  /// replicas' parts, whose sizes stay, cost about the same. By the costs alone, without messages, and
  /// whatever the number of replicas, each step of a window has the same rows. A tensor of costs needs random
  /// access; otherwise each process reads all rows of its stream. Balanced split only, without `weights`.
  std::optional<RowCost> balance = {};
  std::int64_t balance_window = 1;  ///< global batches that exchange rows, at least 1
  double peer_timeout =
      300.0;  ///< seconds that other processes, and the store, may keep this one waiting; positive
  /// Seconds without a sign of life after which another host counts as lost, or `peer_timeout` if that is
  /// shorter; positive.
  double host_timeout = 5.0;
};

}  // namespace torch_distinput
