// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/element_type.h"
#include "core/state_reader.h"
#include "execution/any_op.h"
#include "execution/draws_order.h"
#include "execution/epoch_cache.h"
#include "execution/open.h"
#include "execution/tells_drawn.h"
#include "execution/tells_facts.h"
#include "ops/combining/choices.h"
#include "ops/combining/common_spec.h"
#include "ops/combining/mixture_plan.h"
#include "ops/ops.h"
#include "runtime/chosen_order.h"

namespace torch_distinput::ops {
namespace {

/// The most choices that are read to know the place of each element: some seconds, and 128 MiB of them.
constexpr std::int64_t kMostChoices = std::int64_t{1} << 27;

/// The state has those of all inputs and of the choice.
class ChooseIterator final : public Iterator {
 public:
  ChooseIterator(std::vector<IteratorPtr> inputs, IteratorPtr choice)
      : inputs_(std::move(inputs)), choice_(std::move(choice)) {}

  std::optional<Element> next() override {
    if (ended_) return std::nullopt;
    const std::optional<Element> choice = choice_->next();
    std::optional<Element> element =
        choice ? inputs_[chosen_dataset(*choice, elements_, inputs_.size())]->next() : std::nullopt;
    ended_ = !element;
    if (element) type_.check(*element, elements_++, kChooseFromDatasetsName);
    return element;
  }

  State save() const override {
    State::List inputs;
    for (const IteratorPtr& input : inputs_) inputs.push_back(input->save());
    State state;
    state.set("inputs", std::move(inputs)).set("choice", choice_->save());
    return state.set("ended", ended_).set("elements", elements_);
  }

  void load(const State& state) override {
    const StateReader saved(state, kChooseFromDatasetsName);
    const State::List& inputs = saved.list("inputs", inputs_.size());
    ended_ = saved.flag("ended");
    elements_ = saved.count("elements");
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->load(inputs[i]);
    choice_->load(saved.at("choice"));
  }

 private:
  std::vector<IteratorPtr> inputs_;
  IteratorPtr choice_;
  bool ended_ = false;
  std::int64_t elements_ = 0;
  ElementType type_;
};

/// As tf.data's choose_from_datasets with its default: ends with the choice, or when a chosen dataset has
/// ended. Elements must be of one structure, kinds and dtypes. Random access if all datasets and the choice
/// have it, and no more than `kMostChoices` choices can be needed: the plan reads those of the epoch when it
/// is made, and throws there for a wrong one. Choices that are the same in each epoch are read once. No batch
/// size.
class ChooseNode final : public Node, public TellsFacts, public TellsDrawn {
 public:
  /// The last input is the choice.
  explicit ChooseNode(std::vector<NodePtr> inputs) : inputs_(std::move(inputs)) {}

  std::string_view name() const override { return kChooseFromDatasetsName; }
  bool tells_drawn(bool) const override { return true; }
  std::string describe() const override { return "choose_from_datasets()"; }
  std::vector<NodePtr> inputs() const override { return inputs_; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    NodePtr choice = std::move(inputs.back());
    inputs.pop_back();
    return choose_from_datasets(std::move(inputs), std::move(choice));
  }

  SpecPtr spec() const override {
    return common_spec(std::span(inputs_).first(inputs_.size() - 1), kChooseFromDatasetsName);
  }

  /// If no dataset can end, there are as many elements as choices; else the number is unknown.
  std::int64_t cardinality() const override {
    const bool endless = std::all_of(inputs_.begin(), inputs_.end() - 1, [](const NodePtr& input) {
      return input->cardinality() == kInfiniteCardinality;
    });
    return endless ? inputs_.back()->cardinality() : kUnknownCardinality;
  }

  PlanPtr plan(const IterContext& context) const override {
    std::optional<Planned> planned = planned_inputs(context);
    if (!planned || planned->most_choices() > kMostChoices) return nullptr;
    const std::vector<std::int64_t> sizes = planned->sizes();
    std::vector<std::int64_t> key = sizes;
    key.push_back(planned->choice->size());
    if (choice_differs()) {
      const std::vector<std::int64_t> order = order_key(context);
      key.insert(key.end(), order.begin(), order.end());
    }
    std::shared_ptr<const ChosenOrder> order =
        orders_.get(std::move(key), [&] { return read_choices(*planned->choice, sizes); });
    const std::int64_t size = order->size();
    return mixture_plan(std::move(planned->datasets), std::move(order), size, std::move(planned->choice),
                        kChooseFromDatasetsName, /*undrawn=*/{});
  }

  std::string facts(const IterContext& context) const override {
    const std::optional<Planned> planned = planned_inputs(context);
    if (!planned || planned->most_choices() <= kMostChoices) return "";
    return "more than " + std::to_string(kMostChoices) + " choices";
  }

  IteratorPtr iterate(const IterContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(open_iterator(inputs_[i], context.input(i)));
    IteratorPtr choice = std::move(inputs.back());
    inputs.pop_back();
    return std::make_unique<ChooseIterator>(std::move(inputs), std::move(choice));
  }

 private:
  struct Planned {
    std::vector<PlanPtr> datasets;
    PlanPtr choice;

    std::vector<std::int64_t> sizes() const {
      std::vector<std::int64_t> sizes;
      for (const PlanPtr& dataset : datasets) sizes.push_back(dataset->size());
      return sizes;
    }
    /// Each choice takes an element, and one that finds none is the last.
    std::int64_t most_choices() const {
      std::int64_t most = 1;
      for (const std::int64_t size : sizes()) {
        if (__builtin_add_overflow(most, size, &most)) most = kEndless;
      }
      return std::min(most, choice->size());
    }
  };

  /// The plans of all inputs, if they have them.
  std::optional<Planned> planned_inputs(const IterContext& context) const {
    std::vector<PlanPtr> plans;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      plans.push_back(inputs_[i]->plan(context.input(i)));
      if (plans.back() == nullptr) return std::nullopt;
    }
    PlanPtr choice = std::move(plans.back());
    plans.pop_back();
    return Planned{std::move(plans), std::move(choice)};
  }

  /// Whether each epoch may have other choices: functions may draw them by `random`.
  bool choice_differs() const {
    const auto calls_users = [](const Node& op) { return !op.user_code().empty(); };
    return draws_order(*inputs_.back()) || any_op(*inputs_.back(), calls_users);
  }

  std::vector<NodePtr> inputs_;
  mutable EpochCache<ChosenOrder> orders_;
};

}  // namespace

NodePtr choose_from_datasets(std::vector<NodePtr> inputs, NodePtr choice) {
  check_inputs(inputs, kChooseFromDatasetsName);
  inputs.push_back(std::move(choice));
  return std::make_shared<ChooseNode>(std::move(inputs));
}

}  // namespace torch_distinput::ops
