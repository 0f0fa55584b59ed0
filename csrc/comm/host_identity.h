// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// How the processes of a group find those on their host.
struct HostIdentity {
  std::string name;     ///< of the host, for messages, as the launcher calls it
  std::string address;  ///< where they meet, as in LocalListener; "": none share this host
};

/// The identity of this process's host, the same in all processes of `group` that can reach each other there:
/// of one network namespace, one user and one start of the job. Where the store has no name, as one in memory
/// has none, each process is a host of its own. The environment's TDI_HOST_ID tells processes of one machine
/// apart, as NCCL_HOSTID does.
HostIdentity host_identity(const ProcessGroup& group);

}  // namespace torch_distinput
