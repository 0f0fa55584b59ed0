// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "torch_distinput/state.h"

namespace torch_distinput {

/// Throws c10::ValueError, which begins with `reader`, unless `states` were saved after the same step of one
/// epoch. `name`: whose state one is.
void check_together(const std::vector<State>& states, const char* reader,
                    const std::function<std::string(const State&)>& name);

}  // namespace torch_distinput
