// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Returns the spec that covers the elements of all `inputs` whose spec is known; null if none is. May run
/// user code. Throws c10::ValueError naming `op` if structures, kinds or dtypes differ.
SpecPtr common_spec(std::span<const NodePtr> inputs, std::string_view op);

/// Throws as `common_spec`, as far as specs are known without running user code, and if `inputs` is empty.
void check_inputs(std::span<const NodePtr> inputs, std::string_view op);

}  // namespace torch_distinput
