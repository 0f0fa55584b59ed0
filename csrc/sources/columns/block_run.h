// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "sources/columns/import_block.h"

namespace torch_distinput {

using BlockPtr = std::shared_ptr<const RowBlock>;

/// Rows `rows` of `block`; they are rows `first`, `first` + 1, ... of what is made, or those in the same
/// places of `slots`.
struct BlockRun {
  BlockPtr block;
  std::span<const std::int64_t> rows;
  std::int64_t first;
};

}  // namespace torch_distinput
