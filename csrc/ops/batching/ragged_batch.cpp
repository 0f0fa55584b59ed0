// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/batching/batch_count.h"
#include "ops/batching/batching.h"
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

/// As tf.data's ragged_batch, but with a single ragged dim: rows may differ in their dim 0 only. Sets the
/// batch size. Random access if the input has it; the state of its iterator is that of the input.
class RaggedBatchNode final : public UnaryNode {
 public:
  RaggedBatchNode(NodePtr input, std::int64_t batch_size, bool drop_remainder)
      : UnaryNode(std::move(input)), batch_size_(batch_size), drop_remainder_(drop_remainder) {}

  std::string_view name() const override { return kRaggedBatchName; }
  std::string describe() const override {
    return c10::str(kRaggedBatchName, "(batch_size=", batch_size_, ", ", remainder(), ")");
  }
  /// Without the size: pipeline_identity adds it to the identity of an op that depends on it.
  std::string identity() const override { return c10::str(kRaggedBatchName, "(", remainder(), ")"); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return ragged_batch(std::move(inputs.at(0)), batch_size_, drop_remainder_);
  }

  SpecPtr spec() const override {
    const SpecPtr rows = input().spec();
    if (rows == nullptr) return nullptr;
    ElementSpec spec = *rows;
    for (LeafSpec& leaf : spec.leaves) leaf = batched(leaf, drop_remainder_ ? batch_size_ : kUnknownDim);
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
    // Finding the spec may read the first element, so it is asked for only when there are rows.
    const auto join = [input = input_ptr()](std::span<const Element> rows, BufferPool& pool) {
      const SpecPtr known = input->spec();
      const ElementSpec spec = known ? *known : spec_of(rows.front());
      check_element(rows.front(), spec, kRaggedBatchName);
      std::vector<bool> ragged;
      for (const LeafSpec& leaf : spec.leaves) ragged.push_back(becomes_ragged(leaf));
      return stack_ragged_rows(rows, ragged, pool, kRaggedBatchName);
    };
    return {batch_size_, drop_remainder_, {join}, context.execution->pool};
  }
  std::string remainder() const { return drop_remainder_ ? "drop_remainder=True" : "drop_remainder=False"; }

  std::int64_t batch_size_;
  bool drop_remainder_;
};

}  // namespace

NodePtr ragged_batch(NodePtr input, std::int64_t batch_size, bool drop_remainder) {
  TORCH_CHECK_VALUE(batch_size >= 1, kRaggedBatchName, ": `batch_size` must be at least 1, but is ",
                    batch_size, ".");
  return std::make_shared<RaggedBatchNode>(std::move(input), batch_size, drop_remainder);
}

}  // namespace torch_distinput::ops
