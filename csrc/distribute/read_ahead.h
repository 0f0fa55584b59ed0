// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distribute/distribution.h"
#include "distribute/plan_rows.h"
#include "runtime/ordered_producer.h"

namespace torch_distinput {

/// How many steps to build ahead, in what portions: 1 + 2k for `per_replica_buffer_size` k, more for tiny
/// steps of native plans, fewer where `prefetch_bytes` would be exceeded; the option `prefetch` overrules.
ProducerOptions read_ahead(const Distribution& distribution, PlanRows& rows);

/// Bytes that may be read ahead: the option `prefetch_bytes`, else 64 MiB.
std::int64_t prefetch_bytes(const Options& options);

}  // namespace torch_distinput
