// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/batching/batch_count.h"
#include "ops/batching/batching.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kBatchName = "batch";

/// As tf.data's batch: rows keep their order, and batch i holds rows from i * `batch_size` on. Sets the batch
/// size for inference. Random access if the input has it; the state of its iterator is that of the input.
class BatchNode final : public UnaryNode {
 public:
  BatchNode(NodePtr input, std::int64_t batch_size, bool drop_remainder)
      : UnaryNode(std::move(input)), batch_size_(batch_size), drop_remainder_(drop_remainder) {}

  std::string_view name() const override { return kBatchName; }
  std::string describe() const override {
    return "batch(batch_size=" + std::to_string(batch_size_) + ", " + remainder() + ")";
  }
  /// Without the size: pipeline_identity adds it to the identity of an op that depends on it.
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
    return batch_plan(std::move(rows), batching(context));
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return batch_iterator(open_iterator(input_ptr(), context.input(0)), batching(context));
  }

 private:
  Batching batching(const IterContext& context) const {
    const auto stack = [](std::span<const Element> rows, BufferPool& pool) {
      return stack_rows(rows, pool, kBatchName);
    };
    return {batch_size_, drop_remainder_, {stack, /*stacks=*/true}, context.execution->pool};
  }
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
