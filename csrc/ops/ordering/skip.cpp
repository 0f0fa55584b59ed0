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

/// The state is the input's, and the number of elements skipped.
class SkipIterator final : public Iterator {
 public:
  SkipIterator(IteratorPtr input, std::int64_t count) : input_(std::move(input)), count_(count) {}

  std::optional<Element> next() override {
    for (; skipped_ < count_; ++skipped_) {
      if (!input_->next()) return std::nullopt;
    }
    return input_->next();
  }

  State save() const override { return State().set("skipped", skipped_).set("input", input_->save()); }

  void load(const State& state) override {
    const StateReader saved(state, "skip");
    skipped_ = saved.count("skipped", count_);
    input_->load(saved.at("input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t count_;
  std::int64_t skipped_ = 0;
};

/// The iterator of `skip(-1)`.
class EmptyIterator final : public Iterator {
 public:
  std::optional<Element> next() override { return std::nullopt; }
  State save() const override { return State(State::Map{}); }
  void load(const State& state) override { StateReader(state, "skip"); }
};

/// As tf.data's skip: drops whole elements, so batches keep their size; -1 drops all. Random access if the
/// input has it.
class SkipNode final : public UnaryNode {
 public:
  SkipNode(NodePtr input, std::int64_t count) : UnaryNode(std::move(input)), count_(count) {}

  std::string_view name() const override { return "skip"; }
  Traits traits() const override {
    return {
        .sharding = {.pass_through = true}, .rows = {.follows = Follows::kChosen}, .order = {.counts = true}};
  }
  std::string describe() const override { return "skip(count=" + std::to_string(count_) + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return skip(std::move(inputs.at(0)), count_);
  }

  std::int64_t cardinality() const override {
    const std::int64_t available = input().cardinality();
    if (count_ == -1) return 0;
    return available < 0 ? available : std::max<std::int64_t>(0, available - count_);
  }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr all = input().plan(context.input(0));
    if (all == nullptr) return nullptr;
    const std::int64_t size = all->size();
    if (count_ == -1 || count_ >= size) return slice_plan(std::move(all), 0, 0);
    return slice_plan(std::move(all), count_, size == kEndless ? kEndless : size - count_);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    if (count_ == -1) return std::make_unique<EmptyIterator>();
    return std::make_unique<SkipIterator>(open_iterator(input_ptr(), context.input(0)), count_);
  }

 private:
  std::int64_t count_;
};

}  // namespace

NodePtr skip(NodePtr input, std::int64_t count) {
  TORCH_CHECK_VALUE(count >= -1, "skip: `count` must be at least 0, or -1 for all, but is ", count, ".");
  return std::make_shared<SkipNode>(std::move(input), count);
}

}  // namespace torch_distinput::ops
