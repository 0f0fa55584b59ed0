// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "torch_distinput/api.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace torch_distinput {

class AgreedSeeds;  // private to the library
struct SharedSlot;  // private to the library

/// The processes that share one dataset, as one of them sees the group. Of c10d the library needs only a
/// store that all of them reach. Strategies over copies of one object share one connection to the
/// other processes, which lasts as long as one of them or a copy of the group.
struct TDI_API ProcessGroup {
  /// `rank` is in [0, size). `name` must be the same in all processes of the group and differ from that of
  /// every other group on the store; it is not empty. Restarted processes may keep the name: what earlier
  /// ones left in the store is ignored. `store`, which an intrusive_ptr owns, is kept and cloned where this
  /// process speaks for its host. Throws c10::ValueError for a rank, size or name out of range.
  ProcessGroup(c10d::Store& store, int rank, int size, std::string name = "group");

  /// The processes of `group`, over its store, whatever its backends are; otherwise as above. Throws
  /// c10::ValueError for a group without a store.
  explicit ProcessGroup(c10d::ProcessGroup& group, std::string name = "group");

  /// The group of this launch, as `Launch::in` reads it from the environment variables of torchrun, Open MPI,
  /// MPICH and Slurm; one process where there are none. Connects to a TCP store, which rank 0 hosts unless
  /// torchrun's agent does. Where rank 0 hosts the store, the end of its last copy of the group waits up to
  /// 30 s for that of the other processes. Throws c10::ValueError naming variables that are missing, wrong or
  /// in contradiction, and c10::Error where the store cannot be reached within `timeout`.
  static ProcessGroup from_env(std::chrono::seconds timeout = std::chrono::seconds{300});

  /// The variables in which the launcher of this process says that it started several, such as
  /// `OMPI_COMM_WORLD_SIZE=4 and OMPI_COMM_WORLD_RANK=1`; "" where it started one or there is none. The shell
  /// of a Slurm job is one process, however many tasks the job may start.
  static std::string launched_with();

  /// Of the group. The library makes calls over clones of it, so that they never wait for the user's.
  std::shared_ptr<c10d::Store> store;
  int rank = 0;                ///< of this process, in [0, size)
  int size = 1;                ///< number of processes, at least 1
  std::string name = "group";  ///< separates groups on one store

 private:
  friend class MultiWorkerMirroredStrategy;
  friend class RankGrid;
  ProcessGroup();
  std::shared_ptr<SharedSlot> shared_;  // the link that all strategies over copies of this group share
  std::shared_ptr<AgreedSeeds> seeds_;  // of the job that this group is a part of; null: it is no part
};

}  // namespace torch_distinput
