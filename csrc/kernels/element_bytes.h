// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch_distinput/element.h"

namespace torch_distinput {

/// Returns bytes that are equal for two elements exactly if they have the same structure, kinds, dtypes,
/// shapes and bytes (so NaN equals itself). Of opaque and dataset leaves only the type counts. Copies leaves
/// on devices to the host. Safe from any thread.
std::string element_bytes(const Element& element);

}  // namespace torch_distinput
