// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "execution/ragged_plan.h"
#include "ops/batching/join_rows.h"

namespace torch_distinput {

/// A plan of batches of rows of its input: a subclass says which rows. Where rows have a static layout, one
/// `gather` of the input writes them straight into the batch; else rows are fetched and joined.
class RowBatchesPlan : public Plan {
 public:
  std::vector<Element> fetch(std::span<std::int64_t> positions) const final;
  void will_read(std::span<std::int64_t> positions) const final;
  Element take_rows(std::span<const Segment> segments) const final;
  void will_take(std::span<const Segment> segments) const final;
  std::vector<const Plan*> inputs() const final { return {input_.get()}; }
  std::int64_t num_source_rows() const final { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const final;
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const final;
  std::vector<std::int64_t> sampled(std::int64_t position) const final {
    return input_->sampled(rows_before(position));
  }

 protected:
  RowBatchesPlan(PlanPtr input, JoinRows join, std::shared_ptr<BufferPool> pool);

  const Plan& input() const { return *input_; }
  /// The layout of rows that can be written straight into a batch; null if they must be joined.
  const RowLayout* row_layout() const { return join_.stacks ? input_->layout() : nullptr; }
  /// Appends the input's positions of the rows of `segment`, in order.
  virtual void append(std::vector<std::int64_t>& positions, const Segment& segment) const = 0;

 private:
  Segment all_of(std::int64_t position) const { return {position, 0, rows(position)}; }
  std::vector<std::int64_t> rows_of(std::span<const Segment> segments) const;
  void add_example(std::vector<std::int64_t>& positions, std::span<const Segment> segments) const;
  /// Whether the input makes whole columns of batches.
  bool fetches_columns() const { return join_.stacks && input_->fetches_batches(); }
  Element assemble(std::span<std::int64_t> positions) const;
  std::vector<Element> fetch_columns_of(std::span<const std::int64_t> positions) const;
  std::vector<Element> gather_rows_of(std::span<const std::int64_t> positions) const;

  PlanPtr input_;
  JoinRows join_;
  std::shared_ptr<BufferPool> pool_;
  const RaggedPlan* ragged_;  ///< `input_` where batches are made of its columns, else null
};

}  // namespace torch_distinput
