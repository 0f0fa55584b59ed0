// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/read_ahead.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "distribute/steps/device_placement.h"

namespace torch_distinput {
namespace {

/// Bytes of one row; nullopt unless all leaves are dense and their dims known.
std::optional<std::int64_t> row_bytes(const ElementSpec& spec) {
  std::int64_t total = 0;
  for (const LeafSpec& leaf : spec.leaves) {
    const auto* dense = std::get_if<TensorSpec>(&leaf);
    if (dense == nullptr || !dense->shape) return std::nullopt;
    std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(dense->dtype));
    for (std::size_t i = 1; i < dense->shape->size(); ++i) {
      const std::int64_t declared = (*dense->shape)[i];
      const std::int64_t dim =
          declared == kUnknownDim && i < dense->expected.size() ? dense->expected[i] : declared;
      if (dim == kUnknownDim) return std::nullopt;
      bytes *= dim;
    }
    total += bytes;
  }
  return total;
}

}  // namespace

std::optional<std::int64_t> step_bytes(const Distribution& distribution, PlanRows& rows) {
  const SpecPtr spec = host_spec(distribution);
  if (!spec) return std::nullopt;
  const auto bytes = row_bytes(*spec);
  if (!bytes) return std::nullopt;
  const RowAssignment& assignment = distribution.assignment;
  const std::int64_t known = assignment.schedule ? assignment.schedule->largest() : assignment.batch;
  const std::int64_t batch = known > 0 ? known : rows.rows(0).value_or(0);
  return std::max<std::int64_t>(*bytes * batch / assignment.replicas.ranks, 1);
}

ReadAhead read_ahead(const Distribution& distribution, PlanRows& rows, const ExecutionContext& execution) {
  const std::int64_t buffer = distribution.input.per_replica_buffer_size;
  return choose_read_ahead(rows.plan()->traits(), execution, distribution.options,
                           Estimate{buffer == 0 ? 0 : 1 + 2 * buffer, step_bytes(distribution, rows)});
}

}  // namespace torch_distinput
