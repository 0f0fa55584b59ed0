// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "torch_distinput/structure.h"

namespace torch_distinput {

/// The leaf of `structure` in its entry `key`, or its only leaf. Throws c10::ValueError naming `op` where
/// `key` names no leaf, or is needed to choose one.
std::size_t named_leaf(const StructurePtr& structure, const std::optional<std::string>& key,
                       std::string_view op);

}  // namespace torch_distinput
