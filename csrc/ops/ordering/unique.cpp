// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "kernels/dense.h"
#include "kernels/element_bytes.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kUniqueName = "unique";

/// Keeps the bytes of all elements it has seen. The state is only the number of elements read; after a
/// restore they are read again, since the bytes would be data in the state.
class UniqueIterator final : public Iterator {
 public:
  explicit UniqueIterator(IteratorPtr input) : input_(std::move(input)), start_(input_->save()) {}

  std::optional<Element> next() override {
    while (std::optional<Element> element = input_->next()) {
      ++read_;
      if (remember(*element)) return element;
    }
    return std::nullopt;
  }

  State save() const override { return State().set("read", read_); }

  void load(const State& state) override {
    const std::int64_t wanted = StateReader(state, kUniqueName).count("read");
    input_->load(start_);
    seen_.clear();
    InterruptPoll poll;
    for (read_ = 0; read_ < wanted; ++read_) {
      poll();
      const std::optional<Element> element = input_->next();
      TORCH_CHECK_VALUE(element, kUniqueName, ": the saved position is after element ", wanted - 1,
                        ", but the input ended after ", read_, ".");
      remember(*element);
    }
  }

 private:
  /// Returns false if an equal element was seen before.
  bool remember(const Element& element) {
    for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
      const Leaf& value = element.leaves()[leaf];
      TORCH_CHECK_TYPE(!std::holds_alternative<NodePtr>(value) && !std::holds_alternative<Opaque>(value),
                       kUniqueName, ": ", leaf_name(*element.structure(), leaf), " is a ", leaf_kind(value),
                       " leaf, which unique cannot compare; map it to a tensor first.");
    }
    return seen_.insert(element_bytes(element)).second;
  }

  IteratorPtr input_;
  State start_;
  std::int64_t read_ = 0;  ///< elements read from the input
  std::unordered_set<std::string> seen_;
};

/// As tf.data's unique: keeps the first of equal elements (structure, dtypes, shapes and bytes). Sequential,
/// of unknown cardinality, without a batch size.
class UniqueNode final : public UnaryNode {
 public:
  using UnaryNode::UnaryNode;

  std::string_view name() const override { return kUniqueName; }
  std::string describe() const override { return "unique()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return unique(std::move(inputs.at(0))); }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  /// Not pass-through: the op must see all elements, so files must not be sharded before it.
  Traits traits() const override { return {}; }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<UniqueIterator>(open_iterator(input_ptr(), context.input(0)));
  }
};

}  // namespace

NodePtr unique(NodePtr input) { return std::make_shared<UniqueNode>(std::move(input)); }

}  // namespace torch_distinput::ops
