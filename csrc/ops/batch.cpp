// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/engine.h"
#include "kernels/rows.h"
#include "ops/batch_count.h"
#include "ops/open.h"
#include "ops/ops.h"
#include "ops/unary_node.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kName = "batch";

class BatchPlan final : public Plan {
 public:
  BatchPlan(PlanPtr input, std::int64_t batch_size, bool drop_remainder, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        batch_size_(batch_size),
        count_(input_->size(), batch_size, drop_remainder),
        pool_(std::move(pool)) {
    const RowLayout* rows = input_->layout();
    if (rows == nullptr || !drop_remainder) return;
    layout_ = *rows;
    for (LeafLayout& leaf : layout_->leaves) {
      leaf.shape.insert(leaf.shape.begin(), batch_size);
      leaf.bytes *= batch_size;
    }
  }

  std::int64_t size() const override { return count_.batches(); }
  PlanTraits traits() const override {
    PlanTraits traits = input_->traits();
    if (traits.read_ahead > 0) traits.read_ahead = count_batches(traits.read_ahead, batch_size_, false);
    return traits;
  }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> row_slots;
    rows.reserve(positions.size() * static_cast<std::size_t>(batch_size_));
    row_slots.reserve(slots.size() * static_cast<std::size_t>(batch_size_));
    for (const std::int64_t position : positions) append(rows, position * batch_size_, batch_size_);
    for (const std::int64_t slot : slots) append(row_slots, slot * batch_size_, batch_size_);
    std::vector<RowSink> row_sinks(sinks.begin(), sinks.end());
    for (RowSink& sink : row_sinks) sink.row_bytes /= batch_size_;
    input_->gather(rows, row_slots, row_sinks);
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> batches;
    batches.reserve(positions.size());
    std::vector<std::int64_t> scratch;
    for (const std::int64_t position : positions) {
      scratch.clear();
      append(scratch, position * batch_size_, rows(position));
      batches.push_back(assemble(scratch));
    }
    return batches;
  }

  std::int64_t rows(std::int64_t position) const override { return count_.rows(position); }
  std::int64_t rows_before(std::int64_t position) const override { return count_.rows_before(position); }

  Element take_rows(std::span<const Segment> segments) const override {
    std::vector<std::int64_t> scratch;
    for (const Segment& segment : segments) {
      append(scratch, segment.element * batch_size_ + segment.begin, segment.end - segment.begin);
    }
    if (!scratch.empty() || input_->layout() != nullptr) return assemble(scratch);
    // Zero rows: only data can tell their dims.
    append(scratch, segments.front().element * batch_size_, 1);
    return slice_rows(assemble(scratch), 0, 0, kName);
  }

 private:
  static void append(std::vector<std::int64_t>& positions, std::int64_t first, std::int64_t count) {
    const std::size_t before = positions.size();
    positions.resize(before + static_cast<std::size_t>(count));
    std::iota(positions.begin() + static_cast<std::ptrdiff_t>(before), positions.end(), first);
  }

  /// The input's elements at `positions` (scratch) as rows of one element.
  Element assemble(std::span<std::int64_t> positions) const {
    const RowLayout* layout = input_->layout();
    if (layout == nullptr) return stack_rows(input_->fetch(positions), *pool_, kName);
    BatchBuffer batch = make_batch(*layout, static_cast<std::int64_t>(positions.size()), *pool_);
    input_->gather(positions, {}, batch.sinks);
    return std::move(batch.element);
  }

  PlanPtr input_;
  std::int64_t batch_size_;
  BatchCount count_;
  std::shared_ptr<BufferPool> pool_;
  std::optional<RowLayout> layout_;
};

/// Between two calls of `next` it holds nothing, so its position is its input's.
class BatchCursor final : public Iterator {
 public:
  BatchCursor(IteratorPtr input, std::int64_t batch_size, bool drop_remainder,
              std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder),
        pool_(std::move(pool)) {}

  std::optional<Element> next() override {
    const std::vector<Element> rows = next_elements(*input_, batch_size_);
    const bool is_short = static_cast<std::int64_t>(rows.size()) < batch_size_;
    if (rows.empty() || (is_short && drop_remainder_)) return std::nullopt;
    return stack_rows(rows, *pool_, kName);
  }

  State save() const override { return State().set("input", input_->save()); }
  void load(const State& state) override { input_->load(state.at("input")); }

 private:
  IteratorPtr input_;
  std::int64_t batch_size_;
  bool drop_remainder_;
  std::shared_ptr<BufferPool> pool_;
};

class BatchNode final : public UnaryNode {
 public:
  BatchNode(NodePtr input, std::int64_t batch_size, bool drop_remainder)
      : UnaryNode(std::move(input)), batch_size_(batch_size), drop_remainder_(drop_remainder) {}

  std::string_view name() const override { return kName; }
  std::string describe() const override {
    return "batch(batch_size=" + std::to_string(batch_size_) + ", " + remainder() + ")";
  }
  /// Without the size: where another op depends on it, that op's identity says so.
  std::string identity() const override { return "batch(" + remainder() + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return batch(std::move(inputs.at(0)), batch_size_, drop_remainder_);
  }

  SpecPtr spec() const override {
    const SpecPtr rows = input().spec();
    if (rows == nullptr) return nullptr;
    ElementSpec spec = *rows;
    for (LeafSpec& leaf : spec.leaves) leaf = prepend_dim(leaf, drop_remainder_ ? batch_size_ : kUnknownDim);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override {
    return count_batches(input().cardinality(), batch_size_, drop_remainder_);
  }
  std::optional<std::int64_t> batch_size() const override { return batch_size_; }
  Traits traits() const override { return {.pass_through = true, .batches = true}; }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(context.input(0));
    if (rows == nullptr) return nullptr;
    return std::make_shared<BatchPlan>(std::move(rows), batch_size_, drop_remainder_, context.engine->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<BatchCursor>(open_iterator(input_ptr(), context.input(0)), batch_size_,
                                         drop_remainder_, context.engine->pool);
  }

 private:
  std::string remainder() const { return drop_remainder_ ? "drop_remainder=True" : "drop_remainder=False"; }

  std::int64_t batch_size_;
  bool drop_remainder_;
};

}  // namespace

NodePtr batch(NodePtr input, std::int64_t batch_size, bool drop_remainder) {
  TORCH_CHECK_VALUE(batch_size >= 1, "batch: `batch_size` must be at least 1, but is ", batch_size, ".");
  return std::make_shared<BatchNode>(std::move(input), batch_size, drop_remainder);
}

}  // namespace torch_distinput::ops
