// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "torch_distinput/options.h"
#include "torch_distinput/structure.h"

/// \file
/// Names of things in messages.

namespace torch_distinput {

/// `leaf ['x']` for leaf number `leaf`, or `the element` for a bare leaf.
std::string leaf_name(const Structure& structure, std::size_t leaf);

/// `AUTO`, `FILE`, ...
std::string policy_name(AutoShardPolicy policy);

}  // namespace torch_distinput
