// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/host_identity.h"
#include "comm/key_value_store.h"
#include "comm/link_role.h"

namespace torch_distinput {

/// The role of this process on its host. The first process at the host's address leads; where another group
/// has that address, or processes that an earlier start of the job left behind, the next address counts.
std::unique_ptr<LinkRole> role_on_host(const KeyValueStorePtr& store, const HostIdentity& host);

}  // namespace torch_distinput
