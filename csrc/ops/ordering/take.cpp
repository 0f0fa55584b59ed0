// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/index_plan.h"
#include "execution/open.h"
#include "execution/unary_node.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

/// The state is the input's, and the number of elements taken. Never reads the input beyond them.
class TakeIterator final : public Iterator {
 public:
  TakeIterator(IteratorPtr input, std::int64_t count) : input_(std::move(input)), count_(count) {}

  std::optional<Element> next() override {
    if (taken_ == count_) return std::nullopt;
    std::optional<Element> element = input_->next();
    if (element) ++taken_;
    return element;
  }

  State save() const override { return State().set("taken", taken_).set("input", input_->save()); }

  void load(const State& state) override {
    const StateReader saved(state, "take");
    taken_ = saved.count("taken", most_counted(count_));
    input_->load(saved.at("input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
};

/// As tf.data's take: keeps whole elements, so batches keep their size; -1 keeps all. Random access if the
/// input has it.
class TakeNode final : public UnaryNode {
 public:
  TakeNode(NodePtr input, std::int64_t count) : UnaryNode(std::move(input)), count_(count) {}

  std::string_view name() const override { return "take"; }
  Traits traits() const override {
    return {
        .sharding = {.pass_through = true}, .rows = {.follows = Follows::kSame}, .order = {.counts = true}};
  }
  std::string describe() const override { return "take(count=" + std::to_string(count_) + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return take(std::move(inputs.at(0)), count_);
  }

  std::int64_t cardinality() const override {
    const std::int64_t available = input().cardinality();
    if (count_ == -1 || available == kUnknownCardinality) return available;
    return available == kInfiniteCardinality ? count_ : std::min(available, count_);
  }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr all = input().plan(context.input(0));
    if (all == nullptr || count_ == -1) return all;
    const std::int64_t size = std::min(all->size(), count_);
    return slice_plan(std::move(all), 0, size);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<TakeIterator>(open_iterator(input_ptr(), context.input(0)), count_);
  }

 private:
  std::int64_t count_;
};

}  // namespace

NodePtr take(NodePtr input, std::int64_t count) {
  TORCH_CHECK_VALUE(count >= -1, "take: `count` must be at least 0, or -1 for all, but is ", count, ".");
  return std::make_shared<TakeNode>(std::move(input), count);
}

}  // namespace torch_distinput::ops
