// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "execution/read_ahead.h"

namespace torch_distinput {

/// Bytes of this rank's parts of the first step; nullopt if not known.
std::optional<std::int64_t> step_bytes(const Distribution& distribution, PlanRows& rows);

/// How steps are built ahead: 1 + 2k of them for `per_replica_buffer_size` k, or as `choose_read_ahead` finds
/// better for this rank's parts of the first step.
ReadAhead read_ahead(const Distribution& distribution, PlanRows& rows, const ExecutionContext& execution);

}  // namespace torch_distinput
