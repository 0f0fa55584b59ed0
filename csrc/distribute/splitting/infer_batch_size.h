// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The global batch size in rows: dim 0 of the elements' spec if it is static and the same for all leaves (-1
/// if leaves differ), else `node.batch_size()`, else -1.
/// Throws c10::ValueError for leaves without a dim 0, as `require_rows` does.
std::int64_t infer_batch_size(const Node& node);

/// Whether the elements have leaves and every leaf has rows to assign. True if the spec is not known.
bool has_rows(const Node& node);

/// Throws c10::ValueError, which names `call`, the leaf and what to do, unless `has_rows(node)`.
void require_rows(const Node& node, std::string_view call);

}  // namespace torch_distinput
