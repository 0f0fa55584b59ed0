// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/engine.h"
#include "ops/batch_count.h"
#include "ops/batch_reader.h"
#include "ops/open.h"
#include "ops/ops.h"
#include "ops/padding.h"
#include "ops/unary_node.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kName = "padded_batch";

using PaddingPtr = std::shared_ptr<const Padding>;

Element pad(const std::vector<Element>& rows, const Padding& padding, BufferPool& pool) {
  return pad_rows(rows, padding.of(rows.front().structure()), pool, kName);
}

class PaddedBatchPlan final : public Plan {
 public:
  PaddedBatchPlan(PlanPtr input, std::int64_t batch_size, bool drop_remainder, PaddingPtr padding,
                  std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        batch_size_(batch_size),
        count_(input_->size(), batch_size, drop_remainder),
        padding_(std::move(padding)),
        pool_(std::move(pool)) {}

  std::int64_t size() const override { return count_.batches(); }
  PlanTraits traits() const override {
    PlanTraits traits = input_->traits();
    if (traits.read_ahead > 0) traits.read_ahead = count_batches(traits.read_ahead, batch_size_, false);
    return traits;
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> batches;
    batches.reserve(positions.size());
    std::vector<std::int64_t> rows;
    for (const std::int64_t position : positions) {
      rows.resize(static_cast<std::size_t>(count_.rows(position)));
      std::iota(rows.begin(), rows.end(), position * batch_size_);
      batches.push_back(pad(input_->fetch(rows), *padding_, *pool_));
    }
    return batches;
  }

  // A part of a batch is as long as the whole batch, so `take_rows` makes whole ones.
  std::int64_t rows(std::int64_t position) const override { return count_.rows(position); }
  std::int64_t rows_before(std::int64_t position) const override { return count_.rows_before(position); }

 private:
  PlanPtr input_;
  std::int64_t batch_size_;
  BatchCount count_;
  PaddingPtr padding_;
  std::shared_ptr<BufferPool> pool_;
};

/// Between two calls of `next` it holds nothing, so its position is its input's.
class PaddedBatchCursor final : public Iterator {
 public:
  PaddedBatchCursor(IteratorPtr input, std::int64_t batch_size, bool drop_remainder, PaddingPtr padding,
                    std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        batch_size_(batch_size),
        drop_remainder_(drop_remainder),
        padding_(std::move(padding)),
        pool_(std::move(pool)) {}

  std::optional<Element> next() override {
    const std::vector<Element> rows = next_elements(*input_, batch_size_);
    const bool is_short = static_cast<std::int64_t>(rows.size()) < batch_size_;
    if (rows.empty() || (is_short && drop_remainder_)) return std::nullopt;
    return pad(rows, *padding_, *pool_);
  }

  State save() const override { return State().set("input", input_->save()); }
  void load(const State& state) override { input_->load(state.at("input")); }

 private:
  IteratorPtr input_;
  std::int64_t batch_size_;
  bool drop_remainder_;
  PaddingPtr padding_;
  std::shared_ptr<BufferPool> pool_;
};

class PaddedBatchNode final : public UnaryNode {
 public:
  PaddedBatchNode(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options)
      : UnaryNode(std::move(input)),
        batch_size_(batch_size),
        options_(std::move(options)),
        padding_(std::make_shared<const Padding>(options_.padded_shapes, options_.padding_values, kName)) {
    if (const SpecPtr rows = quiet_spec(this->input())) padding_->of(*rows);
  }

  std::string_view name() const override { return kName; }
  std::string describe() const override {
    return "padded_batch(batch_size=" + std::to_string(batch_size_) + ", " + arguments() + ")";
  }
  /// Without the size: where another op depends on it, that op's identity says so.
  std::string identity() const override { return "padded_batch(" + arguments() + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return padded_batch(std::move(inputs.at(0)), batch_size_, options_);
  }

  SpecPtr spec() const override {
    const SpecPtr rows = input().spec();
    if (rows == nullptr) return nullptr;
    return std::make_shared<const ElementSpec>(
        padding_->batch_spec(*rows, options_.drop_remainder ? batch_size_ : kUnknownDim));
  }
  std::int64_t cardinality() const override {
    return count_batches(input().cardinality(), batch_size_, options_.drop_remainder);
  }
  std::optional<std::int64_t> batch_size() const override { return batch_size_; }
  Traits traits() const override { return {.pass_through = true, .batches = true}; }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr rows = input().plan(context.input(0));
    if (rows == nullptr) return nullptr;
    return std::make_shared<PaddedBatchPlan>(std::move(rows), batch_size_, options_.drop_remainder, padding_,
                                             context.engine->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<PaddedBatchCursor>(open_iterator(input_ptr(), context.input(0)), batch_size_,
                                               options_.drop_remainder, padding_, context.engine->pool);
  }

 private:
  std::string arguments() const {
    return std::string("drop_remainder=") + (options_.drop_remainder ? "True" : "False") +
           padding_->describe();
  }

  std::int64_t batch_size_;
  PaddedBatchOptions options_;
  PaddingPtr padding_;
};

}  // namespace

NodePtr padded_batch(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options) {
  TORCH_CHECK_VALUE(batch_size >= 1, "padded_batch: `batch_size` must be at least 1, but is ", batch_size,
                    ".");
  return std::make_shared<PaddedBatchNode>(std::move(input), batch_size, std::move(options));
}

}  // namespace torch_distinput::ops
