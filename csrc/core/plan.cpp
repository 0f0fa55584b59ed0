// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

/// The sources below `plan`; a stream, null, counts as one.
std::int64_t count_sources(const Plan* plan) {
  const std::vector<const Plan*> inputs = plan == nullptr ? std::vector<const Plan*>() : plan->inputs();
  if (inputs.empty()) return 1;
  return std::accumulate(
      inputs.begin(), inputs.end(), std::int64_t{0},
      [](std::int64_t sources, const Plan* input) { return sources + count_sources(input); });
}

std::vector<std::int64_t> even_starts(std::int64_t size, std::int64_t elements) {
  std::vector<std::int64_t> starts;
  for (std::int64_t start = 0; start < size; start += elements) starts.push_back(start);
  starts.push_back(size);
  return starts;
}

}  // namespace

Plan::~Plan() = default;

std::int64_t Plan::least_bytes() const {
  std::int64_t bytes = 0;
  if (const RowLayout* const rows = layout()) {
    for (const LeafLayout& leaf : rows->leaves) bytes += leaf.bytes;
  }
  return bytes;
}

std::string Plan::origin(std::int64_t) const { return ""; }

void Plan::keep_blocks(std::int64_t blocks) const {
  for (const Plan* const input : inputs()) {
    if (input != nullptr) input->keep_blocks(blocks);
  }
}

std::vector<std::int64_t> Plan::block_starts() const {
  constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
  constexpr std::int64_t kBlockElements = 1024;
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;  // tables of blocks stay small
  const std::int64_t bytes = least_bytes();
  const std::int64_t elements = bytes == 0 ? kBlockElements : std::max<std::int64_t>(kBlockBytes / bytes, 1);
  return even_starts(size(), std::max(elements, size() / kMostBlocks + 1));
}

std::vector<const Plan*> Plan::inputs() const { return {}; }

std::int64_t Plan::num_source_rows() const { return size(); }

void Plan::source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const {
  rows.insert(rows.end(), positions.begin(), positions.end());
}

void Plan::source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const {
  std::vector<std::int64_t> elements;
  for (const Segment& segment : segments) {
    if (segment.begin == segment.end || (!elements.empty() && elements.back() == segment.element)) continue;
    elements.push_back(segment.element);
  }
  source_rows(elements, rows);
}

SourceRow Plan::source_row(std::int64_t row) const {
  std::int64_t sources = 0;
  for (const Plan* const input : inputs()) {
    const std::int64_t rows = input == nullptr ? 0 : input->num_source_rows();
    if (row < rows) {
      SourceRow place = input->source_row(row);
      place.source += sources;
      return place;
    }
    row -= rows;
    sources += count_sources(input);
  }
  return {0, "", row};
}

void Plan::gather(std::span<std::int64_t>, std::span<const std::int64_t>, std::span<const RowSink>) const {
  TORCH_INTERNAL_ASSERT(false, "gather on a plan without a layout");
}

void Plan::gather_batches(std::span<std::int64_t> positions, std::span<const BatchRows> batches) const {
  for (const auto& [count, sinks] : batches) {
    gather(positions.first(count), {}, sinks);
    positions = positions.subspan(count);
  }
}

Element Plan::fetch_batch(std::span<std::int64_t>) const {
  TORCH_INTERNAL_ASSERT(false, "fetch_batch on a plan that fetches no batches");
}

std::vector<Element> Plan::fetch_batches(std::span<std::int64_t> positions,
                                         std::span<const std::size_t> counts) const {
  std::vector<Element> batches;
  batches.reserve(counts.size());
  for (const std::size_t count : counts) {
    batches.push_back(fetch_batch(positions.first(count)));
    positions = positions.subspan(count);
  }
  return batches;
}

std::int64_t Plan::rows(std::int64_t) const { return kUnknownRows; }

std::int64_t Plan::rows_before(std::int64_t position) const {
  std::int64_t sum = 0;
  for (std::int64_t e = 0; e < position; ++e) sum += rows(e);
  return sum;
}

bool Plan::knows_lengths(std::size_t leaf) const {
  const RowLayout* const rows = layout();
  return rows != nullptr && leaf < rows->leaves.size() && !rows->leaves[leaf].shape.empty();
}

void Plan::lengths(std::size_t leaf, std::span<std::int64_t> positions) const {
  std::fill(positions.begin(), positions.end(), layout()->leaves[leaf].shape.front());
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
