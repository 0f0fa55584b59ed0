// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/element.h"

namespace torch_distinput {

/// Equal for two elements exactly when they have the same structure, kinds, dtypes, shapes and bytes (so NaN
/// equals itself). Of opaque and dataset leaves only the type counts.
std::string element_bytes(const Element& element);

}  // namespace torch_distinput
