// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "execution/ragged_plan.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// Sums over prefixes of [0, n), kept at every 256th position: increasing positions cost O(1) each, and so
/// does a position that was asked for before. Safe from any thread.
class RowTotals {
 public:
  /// Sum over the positions [begin, end), at most 256 of them.
  using SumRange = std::function<std::int64_t(std::int64_t begin, std::int64_t end)>;

  /// Sum over [0, `position`). `sum` must return the same at every call; it runs under this object's lock.
  std::int64_t before(std::int64_t position, const SumRange& sum) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> totals_{0};
};

/// A plan whose elements are elements of one input plan, in another order or a selection of them. A subclass
/// maps the positions; everything else is forwarded.
class IndexPlan : public RaggedPlan {
 public:
  PlanTraits traits() const override { return input_->traits(); }
  std::int64_t least_bytes() const final { return input_->least_bytes(); }
  std::string origin(std::int64_t position) const final;
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override;
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override;
  const RowLayout* layout() const override { return input_->layout(); }
  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const final;
  void gather_batches(std::span<std::int64_t> positions, std::span<const BatchRows> batches) const final;
  std::vector<Element> fetch(std::span<std::int64_t> positions) const final;
  bool fetches_batches() const final { return input_->fetches_batches(); }
  Element fetch_batch(std::span<std::int64_t> positions) const final;
  std::vector<Element> fetch_batches(std::span<std::int64_t> positions,
                                     std::span<const std::size_t> counts) const final;
  bool fetches_ragged() const final { return as_ragged(*input_) != nullptr; }
  Element fetch_ragged(std::span<std::int64_t> positions) const final;
  std::int64_t rows(std::int64_t position) const final;
  std::int64_t rows_before(std::int64_t position) const override;
  Element take_rows(std::span<const Segment> segments) const final;
  bool knows_lengths(std::size_t leaf) const final { return input_->knows_lengths(leaf); }
  void lengths(std::size_t leaf, std::span<std::int64_t> positions) const final;
  void gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                     std::span<char* const> to) const final;
  void will_read(std::span<std::int64_t> positions) const final;
  void will_take(std::span<const Segment> segments) const final;

 protected:
  explicit IndexPlan(PlanPtr input);

  /// Replaces every position by that of the same element in the input.
  virtual void translate(std::span<std::int64_t> positions) const = 0;

  /// The input plan, which lives as long as this plan.
  const Plan& input() const { return *input_; }

 private:
  std::vector<Segment> translated(std::span<const Segment> segments) const;

  PlanPtr input_;
  RowTotals totals_;
};

/// Elements [begin, begin + size) of `input`; `size` may be `kEndless`.
PlanPtr slice_plan(PlanPtr input, std::int64_t begin, std::int64_t size);

}  // namespace torch_distinput
