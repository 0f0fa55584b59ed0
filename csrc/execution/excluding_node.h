// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The elements of `input` before `position`, and of those from there on all that have no source row of
/// `rows` (`Plan::source_rows`, increasing). Needs random access; keeps the random numbers of its input.
NodePtr excluding_node(NodePtr input, std::int64_t position, std::vector<std::int64_t> rows);

}  // namespace torch_distinput
