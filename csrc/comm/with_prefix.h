// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// `inner` with `prefix` before each key. As safe as `inner` from several threads.
KeyValueStorePtr with_prefix(KeyValueStorePtr inner, std::string prefix);

}  // namespace torch_distinput
