// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/batch_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/batching/batch_count.h"
#include "ops/batching/batching.h"
#include "ops/batching/padding.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kPaddedBatchName = "padded_batch";

/// As tf.data's padded_batch: rows are padded at the end of each dim, to the longest row of the whole batch
/// or to a declared shape. Sets the batch size. Random access if the input has it, but a part of a batch
/// needs all its rows; the state of its iterator is that of the input.
class PaddedBatchNode final : public UnaryNode {
 public:
  PaddedBatchNode(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options)
      : UnaryNode(std::move(input)),
        batch_size_(batch_size),
        options_(std::move(options)),
        padding_(std::make_shared<const Padding>(options_.padded_shapes, options_.padding_values,
                                                 kPaddedBatchName)) {
    if (const SpecPtr rows = quiet_spec(this->input())) padding_->of(*rows);
  }

  std::string_view name() const override { return kPaddedBatchName; }
  std::string describe() const override {
    return "padded_batch(batch_size=" + std::to_string(batch_size_) + ", " + arguments() + ")";
  }
  /// Without the size: pipeline_identity adds it to the identity of an op that depends on it.
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
    return batch_plan(std::move(rows), batching(context));
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return batch_iterator(open_iterator(input_ptr(), context.input(0)), batching(context));
  }

 private:
  Batching batching(const IterContext& context) const {
    const auto pad = [padding = padding_](std::span<const Element> rows, BufferPool& pool) {
      return pad_rows(rows, padding->of(rows.front().structure()), pool, kPaddedBatchName);
    };
    return {batch_size_, options_.drop_remainder, {.join = pad, .whole = true}, context.execution->pool};
  }
  std::string arguments() const {
    return std::string("drop_remainder=") + (options_.drop_remainder ? "True" : "False") +
           padding_->describe();
  }

  std::int64_t batch_size_;
  PaddedBatchOptions options_;
  std::shared_ptr<const Padding> padding_;
};

}  // namespace

NodePtr padded_batch(NodePtr input, std::int64_t batch_size, PaddedBatchOptions options) {
  TORCH_CHECK_VALUE(batch_size >= 1, "padded_batch: `batch_size` must be at least 1, but is ", batch_size,
                    ".");
  return std::make_shared<PaddedBatchNode>(std::move(input), batch_size, std::move(options));
}

}  // namespace torch_distinput::ops
