// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/row_batches_plan.h"

#include <utility>

namespace torch_distinput {

RowBatchesPlan::RowBatchesPlan(PlanPtr input, JoinRows join, std::shared_ptr<BufferPool> pool)
    : input_(std::move(input)),
      join_(std::move(join)),
      pool_(std::move(pool)),
      ragged_(join_.join_ragged ? as_ragged(*input_) : nullptr) {}

std::vector<Element> RowBatchesPlan::fetch(std::span<std::int64_t> positions) const {
  if (fetches_columns()) return fetch_columns_of(positions);
  if (ragged_ == nullptr && row_layout() != nullptr) return gather_rows_of(positions);
  std::vector<Element> batches;
  batches.reserve(positions.size());
  std::vector<std::int64_t> scratch;
  for (const std::int64_t position : positions) {
    scratch.clear();
    append(scratch, all_of(position));
    batches.push_back(assemble(scratch));
  }
  return batches;
}

void RowBatchesPlan::will_read(std::span<std::int64_t> positions) const {
  std::vector<std::int64_t> all;
  for (const std::int64_t position : positions) append(all, all_of(position));
  input_->will_read(all);
}

Element RowBatchesPlan::take_rows(std::span<const Segment> segments) const {
  if (join_.whole) return Plan::take_rows(segments);
  std::vector<std::int64_t> scratch = rows_of(segments);
  const bool none = scratch.empty();
  if (none) add_example(scratch, segments);
  Element taken = assemble(scratch);
  return none && !scratch.empty() ? slice_rows(taken, 0, 0, "batch") : taken;
}

void RowBatchesPlan::will_take(std::span<const Segment> segments) const {
  if (join_.whole) return Plan::will_take(segments);
  std::vector<std::int64_t> scratch = rows_of(segments);
  if (scratch.empty()) add_example(scratch, segments);
  input_->will_read(scratch);
}

void RowBatchesPlan::source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const {
  std::vector<std::int64_t> all;
  for (const std::int64_t position : positions) append(all, all_of(position));
  input_->source_rows(all, rows);
}

void RowBatchesPlan::source_rows_of(std::span<const Segment> segments,
                                    std::vector<std::int64_t>& rows) const {
  std::vector<std::int64_t> all = rows_of(segments);
  input_->source_rows(all, rows);
}

std::vector<std::int64_t> RowBatchesPlan::rows_of(std::span<const Segment> segments) const {
  std::vector<std::int64_t> positions;
  for (const Segment& segment : segments) append(positions, segment);
  return positions;
}

/// Without a layout, the dims of zero rows are those of a real row.
void RowBatchesPlan::add_example(std::vector<std::int64_t>& positions,
                                 std::span<const Segment> segments) const {
  if (row_layout() == nullptr) append(positions, {segments.front().element, 0, 1});
}

/// Returns the input's elements at `positions` as rows of one element. Overwrites `positions`.
Element RowBatchesPlan::assemble(std::span<std::int64_t> positions) const {
  if (fetches_columns()) return input_->fetch_batch(positions);
  if (ragged_ != nullptr) return join_.join_ragged(ragged_->fetch_ragged(positions), *pool_);
  const RowLayout* layout = row_layout();
  if (layout == nullptr) return join_(input_->fetch(positions), *pool_);
  BatchBuffer batch = make_batch(*layout, static_cast<std::int64_t>(positions.size()), *pool_);
  input_->gather(positions, {}, batch.sinks);
  return std::move(batch.element);
}

std::vector<Element> RowBatchesPlan::fetch_columns_of(std::span<const std::int64_t> positions) const {
  std::vector<std::int64_t> scratch;
  std::vector<std::size_t> counts;
  for (const std::int64_t position : positions) {
    append(scratch, all_of(position));
    counts.push_back(static_cast<std::size_t>(rows(position)));
  }
  return input_->fetch_batches(scratch, counts);
}

std::vector<Element> RowBatchesPlan::gather_rows_of(std::span<const std::int64_t> positions) const {
  std::vector<std::int64_t> scratch;
  std::vector<BatchBuffer> buffers;
  buffers.reserve(positions.size());
  std::vector<BatchRows> batches;
  for (const std::int64_t position : positions) {
    append(scratch, all_of(position));
    const std::int64_t count = rows(position);
    buffers.push_back(make_batch(*row_layout(), count, *pool_));
    batches.push_back({static_cast<std::size_t>(count), buffers.back().sinks});
  }
  input_->gather_batches(scratch, batches);
  std::vector<Element> elements;
  elements.reserve(buffers.size());
  for (BatchBuffer& buffer : buffers) elements.push_back(std::move(buffer.element));
  return elements;
}

}  // namespace torch_distinput
