// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "torch_distinput/options.h"
#include "torch_distinput/structure.h"

/// \file
/// What things are called in messages.

namespace torch_distinput {

/// `leaf ['x']`, or `the element` where it is its only leaf.
std::string leaf_name(const Structure& structure, std::size_t leaf);

/// `AUTO`, `FILE`, ...
std::string policy_name(AutoShardPolicy policy);

}  // namespace torch_distinput
