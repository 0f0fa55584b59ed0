// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/open.h"
#include "ops/combining/zip_plan.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

/// The state has those of all inputs, and whether one has ended.
class ZipIterator final : public Iterator {
 public:
  ZipIterator(StructurePtr structure, std::vector<IteratorPtr> inputs)
      : structure_(std::move(structure)), inputs_(std::move(inputs)) {}

  std::optional<Element> next() override {
    if (ended_) return std::nullopt;
    std::vector<Element> parts;
    for (const IteratorPtr& input : inputs_) {
      std::optional<Element> part = input->next();
      if (!part) {
        ended_ = true;
        return std::nullopt;
      }
      parts.push_back(std::move(*part));
    }
    return side_by_side(structure_, std::move(parts));
  }

  State save() const override {
    State::List inputs;
    for (const IteratorPtr& input : inputs_) inputs.push_back(input->save());
    return State().set("ended", ended_).set("inputs", std::move(inputs));
  }

  void load(const State& state) override {
    const StateReader saved(state, "zip");
    const State::List& inputs = saved.list("inputs", inputs_.size());
    ended_ = saved.flag("ended");
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs_[i]->load(inputs[i]);
  }

 private:
  StructurePtr structure_;
  std::vector<IteratorPtr> inputs_;
  bool ended_ = false;
};

/// As tf.data's zip: ends with the shortest input. The batch size is that of all inputs, if equal. Random
/// access if all inputs have it; rows are known if each element has as many rows in all inputs.
class ZipNode final : public Node {
 public:
  ZipNode(StructurePtr structure, std::vector<NodePtr> inputs)
      : structure_(std::move(structure)), inputs_(std::move(inputs)) {}

  std::string_view name() const override { return "zip"; }
  std::string describe() const override { return "zip(" + structure_->str() + ")"; }
  std::vector<NodePtr> inputs() const override { return inputs_; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return zip(structure_, std::move(inputs));
  }

  SpecPtr spec() const override {
    ElementSpec joined;
    std::vector<StructurePtr> structures;
    for (const NodePtr& input : inputs_) {
      const SpecPtr part = input->spec();
      if (part == nullptr) return nullptr;
      structures.push_back(part->structure);
      joined.leaves.insert(joined.leaves.end(), part->leaves.begin(), part->leaves.end());
    }
    joined.structure = substitute(structure_, structures);
    return std::make_shared<ElementSpec>(std::move(joined));
  }

  /// That of the shortest input; unknown if one is unknown, since that one may be the shortest.
  std::int64_t cardinality() const override {
    std::int64_t shortest = kInfiniteCardinality;
    for (const NodePtr& input : inputs_) {
      const std::int64_t here = input->cardinality();
      if (here == kUnknownCardinality) return kUnknownCardinality;
      if (here != kInfiniteCardinality)
        shortest = shortest == kInfiniteCardinality ? here : std::min(shortest, here);
    }
    return shortest;
  }

  std::optional<std::int64_t> batch_size() const override {
    const auto first = inputs_.front()->batch_size();
    const bool agree = std::all_of(inputs_.begin(), inputs_.end(),
                                   [&](const NodePtr& input) { return input->batch_size() == first; });
    return agree ? first : std::nullopt;
  }
  Traits traits() const override { return {.sharding = {.pass_through = true, .aligns = true}}; }

  PlanPtr plan(const IterContext& context) const override {
    std::vector<PlanPtr> parts;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      parts.push_back(inputs_[i]->plan(context.input(i)));
      if (parts.back() == nullptr) return nullptr;
    }
    return zip_plan(structure_, std::move(parts));
  }

  IteratorPtr iterate(const IterContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(open_iterator(inputs_[i], context.input(i)));
    return std::make_unique<ZipIterator>(structure_, std::move(inputs));
  }

 private:
  StructurePtr structure_;
  std::vector<NodePtr> inputs_;
};

}  // namespace

NodePtr zip(StructurePtr structure, std::vector<NodePtr> inputs) {
  TORCH_CHECK_VALUE(!inputs.empty(), "zip: `structure` must hold at least 1 dataset, but holds none.");
  TORCH_CHECK_VALUE(structure->leaf_count() == static_cast<std::int64_t>(inputs.size()),
                    "zip: `structure` must have a leaf for each of the ", inputs.size(), " datasets, but ",
                    structure->str(), " has ", structure->leaf_count(), ".");
  return std::make_shared<ZipNode>(std::move(structure), std::move(inputs));
}

}  // namespace torch_distinput::ops
