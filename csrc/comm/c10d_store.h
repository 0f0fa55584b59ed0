// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/key_value_store.h"
#include "torch_distinput/process_group.h"

namespace torch_distinput {

/// The ranks of `group`, who leave their texts in the group's store.
KeyValueStorePtr c10d_store(const ProcessGroup& group);

}  // namespace torch_distinput
