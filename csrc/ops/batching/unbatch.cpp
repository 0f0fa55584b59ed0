// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "execution/batch_reader.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "kernels/rows.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kUnbatchName = "unbatch";

/// The state is the reader's: the input's state before the current batch, and the rows used of it.
class UnbatchIterator final : public Iterator {
 public:
  explicit UnbatchIterator(IteratorPtr input) : reader_(std::move(input), kUnbatchName) {}

  std::optional<Element> next() override {
    while (reader_.rows_left() == 0) {
      if (!reader_.read()) return std::nullopt;
    }
    const std::int64_t row = reader_.advance(1);
    return take_row(reader_.batch(), row, kUnbatchName);
  }

  State save() const override { return reader_.save(); }
  void load(const State& state) override { reader_.load(state); }

 private:
  BatchReader reader_;
};

/// As tf.data's unbatch: each row along dim 0 of all leaves is an element, which shares the memory of its
/// batch. Sequential, of unknown cardinality, without a batch size.
class UnbatchNode final : public UnaryNode {
 public:
  using UnaryNode::UnaryNode;

  std::string_view name() const override { return kUnbatchName; }
  std::string describe() const override { return "unbatch()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return unbatch(std::move(inputs.at(0))); }

  SpecPtr spec() const override {
    const SpecPtr batches = input().spec();
    if (batches == nullptr) return nullptr;
    check_batch_spec(*batches, kUnbatchName);
    ElementSpec spec = *batches;
    for (LeafSpec& leaf : spec.leaves) leaf = drop_dim0(leaf);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .rows = {.batches = false}}; }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<UnbatchIterator>(open_iterator(input_ptr(), context.input(0)));
  }
};

}  // namespace

NodePtr unbatch(NodePtr input) {
  check_batches(*input, kUnbatchName);
  return std::make_shared<UnbatchNode>(std::move(input));
}

}  // namespace torch_distinput::ops
