// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/polling.h"
#include "remote/object_store.h"

namespace torch_distinput {

/// What stores have told of objects, once for all ranks of a job on this host: what `ask` returns, which it
/// calls with the Poll to call while it waits, or what it has returned in another rank for the same `what`
/// (`share_in_job`). Throws what `ask` throws.
std::vector<ListedObject> ask_in_job(const std::string& what,
                                     const std::function<std::vector<ListedObject>(const Poll&)>& ask,
                                     const Poll& poll);

}  // namespace torch_distinput
