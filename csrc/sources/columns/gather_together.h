// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "sources/columns/block_run.h"
#include "sources/columns/row_type.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Whether the rows of all `runs` lie together.
bool lie_together(std::span<const BlockRun> runs);
/// As `gather_runs`: each row is found once, and all its leaves are copied while it is in the processor's
/// cache. REQUIRES: the rows lie together, and are of `type`.
void gather_together(const RowType& type, std::span<const BlockRun> runs, std::span<const std::int64_t> slots,
                     std::span<const RowSink> sinks);

}  // namespace torch_distinput
