// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "kernels/rows.h"
#include "ops/batching/batch_count.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kWindowName = "window";

using Values = std::shared_ptr<const std::vector<Element>>;

/// Random access to the values of a window. Elements are copies, because users may write to them.
class ValuesPlan final : public Plan {
 public:
  ValuesPlan(Values values, std::shared_ptr<BufferPool> pool)
      : values_(std::move(values)), pool_(std::move(pool)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(values_->size()); }
  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> elements;
    elements.reserve(positions.size());
    for (const std::int64_t position : positions)
      elements.push_back(copy_element((*values_)[static_cast<std::size_t>(position)], *pool_));
    return elements;
  }

 private:
  Values values_;
  std::shared_ptr<BufferPool> pool_;
};

class ValuesIterator final : public Iterator {
 public:
  explicit ValuesIterator(PlanPtr plan) : plan_(std::move(plan)) {}

  std::optional<Element> next() override {
    if (position_ == plan_->size()) return std::nullopt;
    std::int64_t position = position_++;
    return std::move(plan_->fetch({&position, 1}).front());
  }
  State save() const override { return State().set("position", position_); }
  void load(const State& state) override {
    position_ = StateReader(state, kWindowName).count("position", plan_->size());
  }

 private:
  PlanPtr plan_;
  std::int64_t position_ = 0;
};

/// A dataset of the values of one leaf in one window.
class ValuesNode final : public Node {
 public:
  ValuesNode(std::vector<Element> values, SpecPtr spec)
      : values_(std::make_shared<const std::vector<Element>>(std::move(values))), spec_(std::move(spec)) {}

  std::string_view name() const override { return "values_of_window"; }
  std::string describe() const override { return c10::str(name(), "(", values_->size(), ")"); }
  std::vector<NodePtr> inputs() const override { return {}; }
  NodePtr with_inputs(std::vector<NodePtr>) const override { return shared_from_this(); }
  SpecPtr spec() const override { return spec_; }
  std::int64_t cardinality() const override { return static_cast<std::int64_t>(values_->size()); }
  PlanPtr plan(const IterContext& context) const override {
    return std::make_shared<ValuesPlan>(values_, context.execution->pool);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ValuesIterator>(plan(context));
  }

 private:
  Values values_;
  SpecPtr spec_;
};

/// Holds no elements between calls of `next`, so its state is that of the input.
class WindowIterator final : public Iterator {
 public:
  WindowIterator(IteratorPtr input, std::int64_t size) : input_(std::move(input)), size_(size) {}

  std::optional<Element> next() override {
    std::vector<Element> elements = next_elements(*input_, size_);
    if (elements.empty()) return std::nullopt;
    const StructurePtr structure = elements.front().structure();
    std::vector<Leaf> windows;
    for (std::size_t leaf = 0; leaf < elements.front().leaves().size(); ++leaf)
      windows.emplace_back(values(elements, leaf));
    return Element(structure, std::move(windows));
  }

  State save() const override { return State().set("input", input_->save()); }
  void load(const State& state) override { input_->load(StateReader(state, kWindowName).at("input")); }

 private:
  /// Returns a dataset of leaf `leaf` of `elements`. Moves the leaves out.
  static NodePtr values(std::vector<Element>& elements, std::size_t leaf) {
    std::vector<Element> values;
    std::optional<ElementSpec> spec;
    for (Element& element : elements) {
      Element value(Structure::leaf(), {std::move(element.leaves()[leaf])});
      ElementSpec here = spec_of(value);
      spec = spec && *spec != here ? merge_specs(*spec, here, kWindowName) : std::move(here);
      values.push_back(std::move(value));
    }
    return std::make_shared<ValuesNode>(std::move(values),
                                        std::make_shared<const ElementSpec>(std::move(*spec)));
  }

  IteratorPtr input_;
  std::int64_t size_;
};

/// As tf.data's window without shift and stride: each leaf becomes a dataset of its next `size` values, fewer
/// in the last window. Sequential, without a batch size; the inner datasets have random access.
class WindowNode final : public UnaryNode {
 public:
  WindowNode(NodePtr input, std::int64_t size) : UnaryNode(std::move(input)), size_(size) {}

  std::string_view name() const override { return kWindowName; }
  std::string describe() const override { return "window(size=" + std::to_string(size_) + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return window(std::move(inputs.at(0)), size_);
  }

  SpecPtr spec() const override {
    const SpecPtr values = input().spec();
    if (values == nullptr) return nullptr;
    ElementSpec spec = *values;
    for (LeafSpec& leaf : spec.leaves) {
      leaf = DatasetSpec{std::make_shared<const ElementSpec>(ElementSpec{Structure::leaf(), {leaf}})};
    }
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  std::int64_t cardinality() const override {
    return count_batches(input().cardinality(), BatchSchedule(kWindowName, size_), /*drop_remainder=*/false);
  }
  std::optional<std::int64_t> batch_size() const override { return std::nullopt; }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .rows = {.batches = false}}; }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<WindowIterator>(open_iterator(input_ptr(), context.input(0)), size_);
  }

 private:
  std::int64_t size_;
};

}  // namespace

NodePtr window(NodePtr input, std::int64_t size) {
  TORCH_CHECK_VALUE(size >= 1, "window: `size` must be at least 1, but is ", size, ".");
  return std::make_shared<WindowNode>(std::move(input), size);
}

}  // namespace torch_distinput::ops
