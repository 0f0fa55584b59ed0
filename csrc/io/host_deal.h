// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// The place of this host among those of a job.
struct HostPlace {
  std::size_t number = 0;  ///< of this host, below `hosts`
  std::size_t hosts = 1;
};

/// The place as the launcher tells it in the environment: torchrun's GROUP_RANK and GROUP_WORLD_SIZE, else
/// Slurm's SLURM_NODEID and SLURM_NNODES. One host where neither is complete and plausible. Safe from any
/// thread that does not change the environment.
TDI_API HostPlace host_place() noexcept;

/// Whether the launcher tells in the environment that this process is one of several ranks: torchrun's
/// WORLD_SIZE, else Slurm's SLURM_NTASKS. Safe as `host_place`.
bool has_company() noexcept;

/// An order in which one process takes files that others take, too.
struct HostDeal {
  std::vector<std::size_t> order;  ///< each number below the count once; first those of this host
  std::size_t own = 0;             ///< how many are of this host
};

/// Deals `count` files over the hosts: file i is that of host i modulo their number. Both parts are in an
/// order of this process and call, so that two processes that take what is left of one list seldom meet. Safe
/// from any thread.
TDI_API HostDeal deal_files(std::size_t count, const HostPlace& place);

}  // namespace torch_distinput
