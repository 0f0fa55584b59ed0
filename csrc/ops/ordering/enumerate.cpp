// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>
#include <utility>

#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "kernels/rows.h"
#include "ops/ops.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput::ops {
namespace {

/// Wraps around at the end of int64.
std::int64_t add(std::int64_t start, std::int64_t position) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + static_cast<std::uint64_t>(position));
}

Element numbered(std::int64_t number, Element element, BufferPool& pool) {
  at::Tensor scalar = pooled_tensor({}, at::kLong, pool);
  *scalar.mutable_data_ptr<std::int64_t>() = number;
  return Element::tuple({Element(std::move(scalar)), std::move(element)});
}

/// The numbers are a leaf of their own, computed from positions.
class EnumeratePlan final : public Plan {
 public:
  EnumeratePlan(PlanPtr input, std::int64_t start, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)), start_(start), pool_(std::move(pool)) {
    const RowLayout* rows = input_->layout();
    if (rows == nullptr) return;
    layout_.emplace(RowLayout{Structure::tuple({Structure::leaf(), rows->structure}), {{at::kLong, {}, 8}}});
    layout_->leaves.insert(layout_->leaves.end(), rows->leaves.begin(), rows->leaves.end());
  }

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override { return input_->traits(); }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const RowSink& numbers = sinks.front();
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t number = add(start_, positions[i]);
      const std::int64_t row = slots.empty() ? static_cast<std::int64_t>(i) : slots[i];
      std::memcpy(numbers.data + row * numbers.row_bytes, &number, sizeof(number));
    }
    input_->gather(positions, slots, sinks.subspan(1));
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> numbers(positions.begin(), positions.end());
    std::vector<Element> elements = input_->fetch(positions);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i] = numbered(add(start_, numbers[i]), std::move(elements[i]), *pool_);
    }
    return elements;
  }
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  void will_read(std::span<std::int64_t> positions) const override { input_->will_read(positions); }

 private:
  PlanPtr input_;
  std::int64_t start_;
  std::shared_ptr<BufferPool> pool_;
  std::optional<RowLayout> layout_;
};

/// The state is the input's, and the number of elements.
class EnumerateIterator final : public Iterator {
 public:
  EnumerateIterator(IteratorPtr input, std::int64_t start, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)), start_(start), pool_(std::move(pool)) {}

  std::optional<Element> next() override {
    std::optional<Element> element = input_->next();
    if (element) element = numbered(add(start_, position_++), std::move(*element), *pool_);
    return element;
  }

  State save() const override { return State().set("position", position_).set("input", input_->save()); }

  void load(const State& state) override {
    const StateReader saved(state, "enumerate");
    position_ = saved.count("position");
    input_->load(saved.at("input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t start_;
  std::shared_ptr<BufferPool> pool_;
  std::int64_t position_ = 0;
};

/// As tf.data's enumerate: pairs (int64 number, element), numbered in the order of this epoch. Without a
/// batch size, because the number is a scalar. Random access if the input has it.
class EnumerateNode final : public UnaryNode {
 public:
  EnumerateNode(NodePtr input, std::int64_t start) : UnaryNode(std::move(input)), start_(start) {}

  std::string_view name() const override { return "enumerate"; }
  std::string describe() const override { return "enumerate(start=" + std::to_string(start_) + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return enumerate(std::move(inputs.at(0)), start_);
  }

  SpecPtr spec() const override {
    const SpecPtr inner = input().spec();
    if (inner == nullptr) return nullptr;
    ElementSpec spec{Structure::tuple({Structure::leaf(), inner->structure}),
                     {TensorSpec{Dims{}, at::kLong}}};
    spec.leaves.insert(spec.leaves.end(), inner->leaves.begin(), inner->leaves.end());
    return std::make_shared<ElementSpec>(std::move(spec));
  }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.rows = {.follows = Follows::kEach}}; }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr elements = input().plan(context.input(0));
    if (elements == nullptr) return nullptr;
    return std::make_shared<EnumeratePlan>(std::move(elements), start_, context.execution->pool);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<EnumerateIterator>(open_iterator(input_ptr(), context.input(0)), start_,
                                               context.execution->pool);
  }

 private:
  std::int64_t start_;
};

}  // namespace

NodePtr enumerate(NodePtr input, std::int64_t start) {
  return std::make_shared<EnumerateNode>(std::move(input), start);
}

}  // namespace torch_distinput::ops
