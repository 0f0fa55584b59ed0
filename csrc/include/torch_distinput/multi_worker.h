// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "torch_distinput/process_group.h"
#include "torch_distinput/strategy.h"

namespace torch_distinput {

/// Several processes (ranks), each with the same number of replicas: the global batch is assigned over all
/// of them. Every process must make the same datasets in the same order. Where the processes read one stream
/// (policy DATA), which replica gets which rows is arithmetic: the processes exchange a few texts when an
/// iterator takes its first step, and none afterwards.
class TDI_API MultiWorkerMirroredStrategy : public Strategy {
 public:
  /// `devices` are those of this process; empty: the accelerator of the environment variable `LOCAL_RANK`
  /// (or that of Open MPI, MPICH or Slurm), else one CPU. Does not wait for the other processes. Throws
  /// c10::ValueError for a device that does not exist or an accelerator that is named twice.
  explicit MultiWorkerMirroredStrategy(const ProcessGroup& group, std::vector<std::string> devices = {});
};

}  // namespace torch_distinput
