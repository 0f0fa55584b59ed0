// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include "execution/last_normalization.h"
#include "ops/batching/batching_node.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kBatchName = "batch";

/// As tf.data's batch: rows keep their order. Sizes that change with the number of the batch are not in
/// tf.data.
class BatchNode final : public BatchingNode {
 public:
  BatchNode(NodePtr input, BatchSchedule sizes, bool drop_remainder)
      : BatchingNode(std::move(input), kBatchName, std::move(sizes), drop_remainder) {}

  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<BatchNode>(std::move(inputs.at(0)), sizes(), drop_remainder());
  }

  NodePtr with_batch_size(NodePtr input, std::int64_t size) const override {
    return batch(std::move(input), size, drop_remainder());
  }

  /// Devices normalize whole batches: those of rows that were to be normalized one by one, too.
  LastNormalizationPtr last_normalization() const override {
    const LastNormalizationPtr row = input().last_normalization();
    if (row == nullptr || row->normalization.batched) return nullptr;
    LastNormalization batch = *row;
    batch.normalization.batched = true;
    batch.from = spec_of_batches(*row->from);
    return std::make_shared<const LastNormalization>(std::move(batch));
  }

 private:
  ElementSpec batch_spec(const ElementSpec& row, std::int64_t rows) const override {
    ElementSpec spec = row;
    for (LeafSpec& leaf : spec.leaves) leaf = prepend_dim(leaf, rows);
    return spec;
  }
  JoinRows join_rows() const override {
    const auto stack = [](std::span<const Element> rows, BufferPool& pool) {
      return stack_rows(rows, pool, kBatchName);
    };
    return {.join = stack, .stacks = true};
  }
};

}  // namespace

NodePtr stack_batches(NodePtr input, BatchSchedule sizes, bool drop_remainder) {
  return std::make_shared<BatchNode>(std::move(input), std::move(sizes), drop_remainder);
}

NodePtr batch(NodePtr input, std::int64_t batch_size, bool drop_remainder) {
  return stack_batches(std::move(input), BatchSchedule(kBatchName, batch_size), drop_remainder);
}

NodePtr batch(NodePtr input, std::vector<BatchSizeFrom> schedule, bool drop_remainder) {
  return stack_batches(std::move(input), BatchSchedule(kBatchName, schedule), drop_remainder);
}

}  // namespace torch_distinput::ops
