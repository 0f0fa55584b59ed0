// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/steps/distribution.h"
#include "distribute/steps/plan_rows.h"
#include "runtime/ordered_producer.h"

namespace torch_distinput {

/// How many steps to build ahead, and in what portions: 1 + 2k for `per_replica_buffer_size` k, more for tiny
/// steps of native plans, fewer if they would exceed `prefetch_bytes`. The option `prefetch` overrides this.
ProducerOptions read_ahead(const Distribution& distribution, PlanRows& rows);

}  // namespace torch_distinput
