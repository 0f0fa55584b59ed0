// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/state_reader.h"
#include "execution/any_op.h"
#include "execution/open.h"
#include "execution/part_plan.h"
#include "execution/plan_traits.h"
#include "ops/combining/same_layout.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

bool knows_rows(const Plan& plan) { return plan.size() == 0 || plan.rows(0) != kUnknownRows; }

/// The second plan's positions follow those of the first.
class ConcatenatePlan final : public PartPlan {
 public:
  ConcatenatePlan(PlanPtr first, PlanPtr second)
      : parts_{std::move(first), std::move(second)},
        border_(parts_[0]->size()),
        same_layout_(same_layout(parts_[0]->layout(), parts_[1]->layout())),
        rows_known_(knows_rows(*parts_[0]) && knows_rows(*parts_[1])) {}

  std::int64_t size() const override {
    std::int64_t sum = 0;
    return __builtin_add_overflow(border_, parts_[1]->size(), &sum) ? kEndless : sum;
  }
  PlanTraits traits() const override { return join(parts_[0]->traits(), parts_[1]->traits()); }
  std::vector<const Plan*> inputs() const override { return {parts_[0].get(), parts_[1].get()}; }
  std::int64_t num_source_rows() const override {
    return parts_[0]->num_source_rows() + parts_[1]->num_source_rows();
  }
  const RowLayout* layout() const override { return same_layout_ ? parts_[0]->layout() : nullptr; }

  bool knows_lengths(std::size_t leaf) const override {
    return parts_[0]->knows_lengths(leaf) && parts_[1]->knows_lengths(leaf);
  }
  std::int64_t rows(std::int64_t position) const override {
    return rows_known_ ? PartPlan::rows(position) : kUnknownRows;
  }
  std::int64_t rows_before(std::int64_t position) const override {
    if (!rows_known_) return kUnknownRows;
    if (position <= border_) return parts_[0]->rows_before(position);
    return parts_[0]->rows_before(border_) + parts_[1]->rows_before(position - border_);
  }
  std::vector<std::int64_t> block_starts() const override {
    std::vector<std::int64_t> starts = parts_[0]->block_starts();
    for (const std::int64_t start : parts_[1]->block_starts()) starts.push_back(border_ + start);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    return starts;
  }

 private:
  Place locate(std::int64_t position) const override {
    return position < border_ ? Place{0, position} : Place{1, position - border_};
  }
  PlanPtr part(std::int64_t index) const override { return parts_[static_cast<std::size_t>(index)]; }
  std::int64_t first_source_row(std::int64_t index) const override {
    return index == 0 ? 0 : parts_[0]->num_source_rows();
  }

  std::array<PlanPtr, 2> parts_;
  std::int64_t border_;
  bool same_layout_;
  bool rows_known_;
};

/// The state is the current part and its state.
class ConcatenateIterator final : public Iterator {
 public:
  ConcatenateIterator(std::array<NodePtr, 2> nodes, const IterContext& context)
      : nodes_(std::move(nodes)), context_(context) {
    open(0);
  }

  std::optional<Element> next() override {
    std::optional<Element> element = input_->next();
    if (element || part_ == 1) return element;
    open(1);
    return input_->next();
  }

  State save() const override {
    return State().set("part", static_cast<std::int64_t>(part_)).set("input", input_->save());
  }

  void load(const State& state) override {
    const StateReader saved(state, "concatenate");
    open(saved.index("part", nodes_.size()));
    input_->load(saved.at("input"));
  }

 private:
  void open(std::size_t part) {
    part_ = part;
    input_ = open_iterator(nodes_[part], context_.input(part));
  }

  std::array<NodePtr, 2> nodes_;
  IterContext context_;
  std::size_t part_ = 0;
  IteratorPtr input_;
};

/// As tf.data's concatenate: dims that differ become unknown in the spec, other differences are an error. The
/// batch size is that of both inputs, if equal. Random access if both inputs have it.
class ConcatenateNode final : public Node {
 public:
  ConcatenateNode(NodePtr first, NodePtr second) : nodes_{std::move(first), std::move(second)} {}

  std::string_view name() const override { return "concatenate"; }
  std::string describe() const override { return "concatenate(...)"; }
  std::vector<NodePtr> inputs() const override { return {nodes_[0], nodes_[1]}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return concatenate(std::move(inputs.at(0)), std::move(inputs.at(1)));
  }

  SpecPtr spec() const override {
    const SpecPtr first = nodes_[0]->spec();
    const SpecPtr second = nodes_[1]->spec();
    if (first == nullptr || second == nullptr) return first == nullptr ? second : first;
    return std::make_shared<ElementSpec>(merge_specs(*first, *second, name()));
  }

  std::int64_t cardinality() const override {
    const std::int64_t first = nodes_[0]->cardinality();
    const std::int64_t second = nodes_[1]->cardinality();
    if (first == kInfiniteCardinality || second == kInfiniteCardinality) return kInfiniteCardinality;
    if (first == kUnknownCardinality || second == kUnknownCardinality) return kUnknownCardinality;
    std::int64_t sum = 0;
    return __builtin_add_overflow(first, second, &sum) ? kInfiniteCardinality : sum;
  }

  std::optional<std::int64_t> batch_size() const override {
    const auto first = nodes_[0]->batch_size();
    return first == nodes_[1]->batch_size() ? first : std::nullopt;
  }
  Traits traits() const override { return {.sharding = {.pass_through = true}, .order = {.permutes = true}}; }

  PlanPtr plan(const IterContext& context) const override {
    PlanPtr first = nodes_[0]->plan(context.input(0));
    if (first == nullptr) return nullptr;
    PlanPtr second = nodes_[1]->plan(context.input(1));
    if (second == nullptr) return nullptr;
    return std::make_shared<ConcatenatePlan>(std::move(first), std::move(second));
  }

  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ConcatenateIterator>(nodes_, context);
  }

 private:
  std::array<NodePtr, 2> nodes_;
};

}  // namespace

NodePtr concatenate(NodePtr first, NodePtr second) {
  auto node = std::make_shared<ConcatenateNode>(std::move(first), std::move(second));
  if (!may_fail(*node)) node->spec();
  return node;
}

}  // namespace torch_distinput::ops
