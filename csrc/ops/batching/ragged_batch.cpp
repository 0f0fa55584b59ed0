// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/batching/batching_node.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kRaggedBatchName = "ragged_batch";

/// Whether a leaf becomes ragged. Tensors of a static shape (scalars too) are stacked, as tf.data's
/// ragged_batch does.
bool becomes_ragged(const LeafSpec& row) {
  const auto* dense = std::get_if<TensorSpec>(&row);
  if (dense == nullptr) return false;
  if (!dense->shape) return true;
  return std::find(dense->shape->begin(), dense->shape->end(), kUnknownDim) != dense->shape->end();
}

LeafSpec batched(const LeafSpec& row, std::int64_t size) {
  LeafSpec batch = prepend_dim(row, size);
  if (!becomes_ragged(row)) return batch;
  auto& dense = std::get<TensorSpec>(batch);
  if (dense.shape) dense.shape->at(1) = kUnknownDim;
  return RaggedTensorSpec{std::move(dense.shape), dense.dtype, 1, std::move(dense.expected)};
}

/// As tf.data's ragged_batch, but with a single ragged dim: rows may differ in their dim 0 only.
class RaggedBatchNode final : public BatchingNode {
 public:
  RaggedBatchNode(NodePtr input, std::int64_t batch_size, bool drop_remainder)
      : BatchingNode(std::move(input), kRaggedBatchName, BatchSchedule(kRaggedBatchName, batch_size),
                     drop_remainder) {}

  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return ragged_batch(std::move(inputs.at(0)), sizes().size(0), drop_remainder());
  }
  NodePtr with_batch_size(NodePtr input, std::int64_t size) const override {
    return ragged_batch(std::move(input), size, drop_remainder());
  }

 private:
  ElementSpec batch_spec(const ElementSpec& row, std::int64_t rows) const override {
    ElementSpec spec = row;
    for (LeafSpec& leaf : spec.leaves) leaf = batched(leaf, rows);
    return spec;
  }
  JoinRows join_rows() const override {
    // Finding the spec may read the first element, so it is asked for only when there are rows.
    const auto join = [input = input_ptr()](std::span<const Element> rows, BufferPool& pool) {
      const SpecPtr known = input->spec();
      const ElementSpec spec = known ? *known : spec_of(rows.front());
      check_element(rows.front(), spec, kRaggedBatchName);
      std::vector<bool> ragged;
      for (const LeafSpec& leaf : spec.leaves) ragged.push_back(becomes_ragged(leaf));
      return stack_ragged_rows(rows, ragged, pool, kRaggedBatchName);
    };
    // A column has the leaves that this op makes: those of a shape that varies are ragged.
    const auto keep = [](Element column, BufferPool&) { return column; };
    return {.join = join, .join_ragged = keep};
  }
};

}  // namespace

NodePtr ragged_batch(NodePtr input, std::int64_t batch_size, bool drop_remainder) {
  return std::make_shared<RaggedBatchNode>(std::move(input), batch_size, drop_remainder);
}

}  // namespace torch_distinput::ops
