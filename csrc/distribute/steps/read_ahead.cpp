// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/steps/read_ahead.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "distribute/steps/device_placement.h"
#include "execution/read_ahead.h"

namespace torch_distinput {
namespace {

constexpr std::int64_t kBurstBytes = std::int64_t{256} << 10;
constexpr std::int64_t kMaxBurst = 16;
constexpr std::int64_t kTinyBytes = 4096;
constexpr std::chrono::microseconds kInlineThreshold{5};

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

/// Bytes of this worker's parts of the first step; nullopt if not known.
std::optional<std::int64_t> step_bytes(const Distribution& distribution, PlanRows& rows) {
  const SpecPtr spec = host_spec(distribution);
  if (!spec) return std::nullopt;
  const auto bytes = row_bytes(*spec);
  if (!bytes) return std::nullopt;
  const RowAssignment& assignment = distribution.assignment;
  const std::int64_t batch = assignment.batch > 0 ? assignment.batch : rows.rows(0).value_or(0);
  return std::max<std::int64_t>(*bytes * batch / assignment.replicas.workers, 1);
}

}  // namespace

ProducerOptions read_ahead(const Distribution& distribution, PlanRows& rows) {
  const Options& options = distribution.options;
  const PlanTraits traits = rows.plan()->traits();
  ProducerOptions ahead{.depth =
                            std::max(1 + 2 * distribution.input.per_replica_buffer_size, traits.read_ahead)};
  const auto bytes = step_bytes(distribution, rows);
  if (traits.runs_user_code) {
    ahead.depth = std::max(ahead.depth, traits.num_parallel_calls);
  } else if (bytes) {
    ahead.burst = std::clamp<std::int64_t>(kBurstBytes / *bytes, 1, kMaxBurst);
    if (*bytes <= kTinyBytes) ahead.inline_threshold = kInlineThreshold;
    ahead.depth = std::max(ahead.depth, 4 * ahead.burst);
  }
  if (options.prefetch) {
    ahead.depth = *options.prefetch;
  } else if (bytes) {
    ahead.depth = std::min(ahead.depth, prefetch_bytes(options) / *bytes);
  }
  ahead.depth = std::max<std::int64_t>(ahead.depth, 1);
  ahead.burst = std::min(ahead.burst, ahead.depth);
  return ahead;
}

}  // namespace torch_distinput
