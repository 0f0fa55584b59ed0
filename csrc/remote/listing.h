// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/polling.h"
#include "remote/place.h"

namespace torch_distinput {

/// The objects whose URLs begin with `prefix`, all pages of them, in the order of the store. `place` has the
/// store. Throws ObjectError, also for a store that cannot list. Calls `poll` while it waits.
std::vector<ListedObject> list_objects(const PlacePtr& place, const std::string& prefix, const Poll& poll);

}  // namespace torch_distinput
