// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// One of the processes that a launcher started, as the variables say that the launcher set: those of
/// torchrun (Spark's TorchDistributor and Kubeflow start it, Ray Train and many scripts set the same), Open
/// MPI, PMI (MPICH, Intel MPI) and Slurm's srun. docs/clusters.md has the table.
struct TDI_API Launch {
  /// Environment variables by name. An empty one counts as one that is not set.
  using Variables = std::map<std::string, std::string>;

  std::string launcher;           ///< `torchrun`, `Open MPI`, `PMI`, `Slurm`, or `RANK and WORLD_SIZE`
  int rank = 0;                   ///< in [0, size)
  int size = 1;                   ///< number of processes
  std::optional<int> local_rank;  ///< among the processes of this machine, if the launcher says so
  std::string host;               ///< of this machine, as the launcher names it; "" if it does not
  std::string master_addr;        ///< where the store of the processes is
  std::uint16_t master_port = 0;

  /// The variables of this process. No other thread may change them meanwhile.
  static Variables variables();

  /// The launch that `variables` describe, none if they are of no launcher: the shell of a Slurm job is a
  /// process of its own, however many tasks the job may start. Throws c10::ValueError, which begins with `op`
  /// and quotes them, for variables that are wrong, incomplete or in contradiction, and where none says how
  /// to reach the other processes.
  static std::optional<Launch> in(const Variables& variables, const std::string& op);

  /// What `in` takes for the local rank. LOCAL_RANK comes before the variables of other launchers.
  static std::optional<int> local_rank_in(const Variables& variables, const std::string& op);

  /// What `in` takes for the host.
  static std::string host_in(const Variables& variables);

  /// The variables that say that several processes were started, such as `OMPI_COMM_WORLD_SIZE=4 and
  /// OMPI_COMM_WORLD_RANK=1`, even if `in` refuses them; "" if none says so.
  static std::string several_in(const Variables& variables);
};

}  // namespace torch_distinput
