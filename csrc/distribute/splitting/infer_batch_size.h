// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The global batch size: dim 0 of the elements' spec where it is static and the same for all leaves
/// (-1 where leaves differ), else what the node says of itself, else -1.
/// Throws c10::ValueError for leaves without a dim 0, see `require_rows`.
std::int64_t infer_batch_size(const Node& node);

/// Whether every leaf of the elements has rows to assign, at least one leaf. A type that is not known has.
bool has_rows(const Node& node);

/// Throws c10::ValueError unless `has_rows`: names `call`, the leaf
/// and what to do.
void require_rows(const Node& node, std::string_view call);

}  // namespace torch_distinput
