// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The spec that covers the elements of all `inputs`; null where none is known. Throws c10::ValueError naming
/// `op` where their types differ.
SpecPtr common_spec(std::span<const NodePtr> inputs, std::string_view op);

/// Throws as `common_spec` does, without running users' code, and for no inputs or null ones.
void check_inputs(std::span<const NodePtr> inputs, std::string_view op);

}  // namespace torch_distinput
