// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/plan.h"

#include <vector>

#include <c10/util/Exception.h>

namespace torch_distinput {

Plan::~Plan() = default;

std::int64_t Plan::least_bytes() const {
  std::int64_t bytes = 0;
  if (const RowLayout* const rows = layout()) {
    for (const LeafLayout& leaf : rows->leaves) bytes += leaf.bytes;
  }
  return bytes;
}

std::string Plan::origin(std::int64_t) const { return ""; }

void Plan::gather(std::span<std::int64_t>, std::span<const std::int64_t>, std::span<const RowSink>) const {
  TORCH_INTERNAL_ASSERT(false, "gather on a plan without a layout");
}

Element Plan::fetch_batch(std::span<std::int64_t>) const {
  TORCH_INTERNAL_ASSERT(false, "fetch_batch on a plan that fetches no batches");
}

std::int64_t Plan::rows(std::int64_t) const { return kUnknownRows; }

std::int64_t Plan::rows_before(std::int64_t position) const {
  std::int64_t sum = 0;
  for (std::int64_t e = 0; e < position; ++e) sum += rows(e);
  return sum;
}

std::vector<std::int64_t> Plan::sampled(std::int64_t) const { return {}; }

void Plan::will_read(std::span<std::int64_t>) const {}

void Plan::will_take(std::span<const Segment> segments) const {
  std::vector<std::int64_t> positions;
  for (const Segment& segment : segments) {
    if (positions.empty() || positions.back() != segment.element) positions.push_back(segment.element);
  }
  will_read(positions);
}

}  // namespace torch_distinput
