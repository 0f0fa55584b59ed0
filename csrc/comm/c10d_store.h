// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/key_value_store.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// A KeyValueStore over the c10d store of `group`, under keys that begin with the group's name. A thread of
/// its own calls the c10d store, so a store that never answers does not block the caller for longer than the
/// limit of `expect_within` (5 minutes until one is set).
KeyValueStorePtr c10d_store(const ProcessGroup& group);

}  // namespace torch_distinput
