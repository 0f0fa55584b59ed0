// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/batching.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/state_reader.h"
#include "ops/batching/batch_count.h"
#include "ops/batching/row_batches_plan.h"

namespace torch_distinput {
namespace {

/// Turns batch numbers into row positions.
class BatchPlan final : public RowBatchesPlan {
 public:
  BatchPlan(PlanPtr input, const Batching& batching)
      : RowBatchesPlan(std::move(input), batching.join, batching.pool),
        sizes_(batching.sizes),
        count_(this->input().size(), batching.sizes, batching.drop_remainder) {
    const RowLayout* rows = row_layout();
    if (rows == nullptr || !batching.drop_remainder || !sizes_.is_constant()) return;
    layout_ = *rows;
    const std::int64_t size = sizes_.size(0);
    for (LeafLayout& leaf : layout_->leaves) {
      leaf.shape.insert(leaf.shape.begin(), size);
      leaf.bytes *= size;
    }
  }

  std::int64_t size() const override { return count_.batches(); }
  PlanTraits traits() const override {
    PlanTraits traits = input().traits();
    if (traits.read_ahead > 0) traits.read_ahead = sizes_.count(traits.read_ahead, false);
    traits.block = 1;  // a batch is made with one call
    traits.together = sizes_.count(traits.together, false);
    return traits;
  }
  std::int64_t least_bytes() const override {
    return size() == 0 ? 0 : std::min(sizes_.smallest(), rows(0)) * input().least_bytes();
  }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const std::int64_t size = sizes_.size(0);  // that of every batch, since there is a layout
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> row_slots;
    rows.reserve(positions.size() * static_cast<std::size_t>(size));
    row_slots.reserve(slots.size() * static_cast<std::size_t>(size));
    for (const std::int64_t position : positions) append_range(rows, position * size, size);
    for (const std::int64_t slot : slots) append_range(row_slots, slot * size, size);
    std::vector<RowSink> row_sinks(sinks.begin(), sinks.end());
    for (RowSink& sink : row_sinks) sink.row_bytes /= size;
    input().gather(rows, row_slots, row_sinks);
  }

  std::int64_t rows(std::int64_t position) const override { return count_.rows(position); }
  std::int64_t rows_before(std::int64_t position) const override { return count_.rows_before(position); }

 private:
  static void append_range(std::vector<std::int64_t>& positions, std::int64_t first, std::int64_t count) {
    const std::size_t before = positions.size();
    positions.resize(before + static_cast<std::size_t>(count));
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(before), positions.end(), first);
  }

  void append(std::vector<std::int64_t>& positions, const Segment& segment) const override {
    append_range(positions, count_.first_row(segment.element) + segment.begin, segment.end - segment.begin);
  }

  BatchSchedule sizes_;
  BatchCount count_;
  std::optional<RowLayout> layout_;
};

/// Holds no rows between calls of `next`, so its state is that of the input, with the number of batches where
/// their sizes change.
class BatchIterator final : public Iterator {
 public:
  BatchIterator(IteratorPtr input, Batching batching)
      : input_(std::move(input)), batching_(std::move(batching)) {}

  std::optional<Element> next() override {
    const std::int64_t size = batching_.sizes.size(batches_);
    const std::vector<Element> rows = next_elements(*input_, size);
    const bool is_short = std::ssize(rows) < size;
    if (rows.empty() || (is_short && batching_.drop_remainder)) return std::nullopt;
    Element batch = batching_.join(rows, *batching_.pool);
    ++batches_;
    return batch;
  }

  State save() const override {
    State state;
    state.set("input", input_->save());
    if (!batching_.sizes.is_constant()) state.set("batches", batches_);
    return state;
  }
  void load(const State& state) override {
    const StateReader saved(state, "batch");
    batches_ = batching_.sizes.is_constant() ? 0 : saved.count("batches");
    input_->load(saved.at("input"));
  }

 private:
  IteratorPtr input_;
  Batching batching_;
  std::int64_t batches_ = 0;  ///< handed out; counted for sizes that change
};

}  // namespace

PlanPtr batch_plan(PlanPtr rows, const Batching& batching) {
  return std::make_shared<BatchPlan>(std::move(rows), batching);
}

IteratorPtr batch_iterator(IteratorPtr rows, Batching batching) {
  return std::make_unique<BatchIterator>(std::move(rows), std::move(batching));
}

}  // namespace torch_distinput
