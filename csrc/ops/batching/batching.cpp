// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/batching.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/state_reader.h"
#include "execution/ragged_plan.h"
#include "ops/batching/batch_count.h"

namespace torch_distinput {
namespace {

/// Turns batch numbers into row positions. Where rows have a static layout, one `gather` of the input writes
/// them straight into the batch; else rows are fetched and joined.
class BatchPlan final : public Plan {
 public:
  BatchPlan(PlanPtr input, const Batching& batching)
      : input_(std::move(input)),
        sizes_(batching.sizes),
        count_(input_->size(), batching.sizes, batching.drop_remainder),
        join_(batching.join),
        pool_(batching.pool),
        ragged_(join_.join_ragged ? as_ragged(*input_) : nullptr) {
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
    PlanTraits traits = input_->traits();
    if (traits.read_ahead > 0) traits.read_ahead = sizes_.count(traits.read_ahead, false);
    return traits;
  }
  std::int64_t least_bytes() const override {
    return size() == 0 ? 0 : std::min(sizes_.smallest(), rows(0)) * input_->least_bytes();
  }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const std::int64_t size = sizes_.size(0);  // that of every batch, since there is a layout
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> row_slots;
    rows.reserve(positions.size() * static_cast<std::size_t>(size));
    row_slots.reserve(slots.size() * static_cast<std::size_t>(size));
    for (const std::int64_t position : positions) append(rows, position * size, size);
    for (const std::int64_t slot : slots) append(row_slots, slot * size, size);
    std::vector<RowSink> row_sinks(sinks.begin(), sinks.end());
    for (RowSink& sink : row_sinks) sink.row_bytes /= size;
    input_->gather(rows, row_slots, row_sinks);
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> batches;
    batches.reserve(positions.size());
    std::vector<std::int64_t> scratch;
    for (const std::int64_t position : positions) {
      scratch.clear();
      append(scratch, count_.first_row(position), rows(position));
      batches.push_back(assemble(scratch));
    }
    return batches;
  }

  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(rows_before(position));
  }

  void will_read(std::span<std::int64_t> positions) const override {
    std::vector<std::int64_t> all;
    for (const std::int64_t position : positions) append(all, count_.first_row(position), rows(position));
    input_->will_read(all);
  }

  std::int64_t rows(std::int64_t position) const override { return count_.rows(position); }
  std::int64_t rows_before(std::int64_t position) const override { return count_.rows_before(position); }

  Element take_rows(std::span<const Segment> segments) const override {
    if (join_.whole) return Plan::take_rows(segments);
    std::vector<std::int64_t> scratch = rows_of(segments);
    const bool none = scratch.empty();
    if (none) add_example(scratch, segments);
    Element taken = assemble(scratch);
    return none && !scratch.empty() ? slice_rows(taken, 0, 0, "batch") : taken;
  }
  void will_take(std::span<const Segment> segments) const override {
    if (join_.whole) return Plan::will_take(segments);
    std::vector<std::int64_t> scratch = rows_of(segments);
    if (scratch.empty()) add_example(scratch, segments);
    input_->will_read(scratch);
  }

 private:
  static void append(std::vector<std::int64_t>& positions, std::int64_t first, std::int64_t count) {
    const std::size_t before = positions.size();
    positions.resize(before + static_cast<std::size_t>(count));
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(before), positions.end(), first);
  }

  /// The input's positions of the rows that `segments` name.
  std::vector<std::int64_t> rows_of(std::span<const Segment> segments) const {
    std::vector<std::int64_t> positions;
    for (const Segment& segment : segments)
      append(positions, count_.first_row(segment.element) + segment.begin, segment.end - segment.begin);
    return positions;
  }

  /// Without a layout, the dims of zero rows are those of a real row.
  void add_example(std::vector<std::int64_t>& positions, std::span<const Segment> segments) const {
    if (row_layout() == nullptr) append(positions, count_.first_row(segments.front().element), 1);
  }

  /// The layout of rows that can be written straight into a batch; null if only `join_` can make one.
  const RowLayout* row_layout() const { return join_.stacks ? input_->layout() : nullptr; }

  /// Returns the input's elements at `positions` as rows of one element. Overwrites `positions`.
  Element assemble(std::span<std::int64_t> positions) const {
    if (join_.stacks && input_->fetches_batches()) return input_->fetch_batch(positions);
    if (ragged_ != nullptr) return join_.join_ragged(ragged_->fetch_ragged(positions), *pool_);
    const RowLayout* layout = row_layout();
    if (layout == nullptr) return join_(input_->fetch(positions), *pool_);
    BatchBuffer batch = make_batch(*layout, static_cast<std::int64_t>(positions.size()), *pool_);
    input_->gather(positions, {}, batch.sinks);
    return std::move(batch.element);
  }

  PlanPtr input_;
  BatchSchedule sizes_;
  BatchCount count_;
  JoinRows join_;
  std::shared_ptr<BufferPool> pool_;
  const RaggedPlan* ragged_;  ///< `input_` where batches are made of its columns, else null
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
