// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "execution/read_ahead.h"

namespace torch_distinput {

/// How steps are built ahead: 1 + 2k of them for `per_replica_buffer_size` k, or as `choose_read_ahead` finds
/// better for this rank's parts of the first step.
ReadAhead read_ahead(const Distribution& distribution, PlanRows& rows, const ExecutionContext& execution);

}  // namespace torch_distinput
