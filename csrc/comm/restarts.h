// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// Whether torchrun gives the processes of all its starts one store, as its c10d rendezvous does by default.
TDI_API bool starts_share_store();

/// What to do where a group that torchrun has started again is broken, for the end of messages: processes of
/// such a group may have read addresses of earlier ones in a store that all starts share. Begins with a
/// space; "" where torchrun has not restarted this process or its starts share no store.
std::string advice_after_restart();

}  // namespace torch_distinput
