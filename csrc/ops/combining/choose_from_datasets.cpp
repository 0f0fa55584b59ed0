// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/element_type.h"
#include "core/state_reader.h"
#include "execution/open.h"
#include "ops/combining/common_spec.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kChooseFromDatasetsName = "choose_from_datasets";

/// The state has those of all inputs and of the choice.
class ChooseIterator final : public Iterator {
 public:
  ChooseIterator(std::vector<IteratorPtr> inputs, IteratorPtr choice)
      : inputs_(std::move(inputs)), choice_(std::move(choice)) {}

  std::optional<Element> next() override {
    if (ended_) return std::nullopt;
    const std::optional<Element> choice = choice_->next();
    std::optional<Element> element = choice ? inputs_[index_of(*choice)]->next() : std::nullopt;
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
  std::size_t index_of(const Element& choice) const {
    const at::Tensor* scalar =
        choice.structure() == Structure::leaf() ? std::get_if<at::Tensor>(&choice.leaves().front()) : nullptr;
    TORCH_CHECK_TYPE(scalar != nullptr && scalar->dim() == 0 && scalar->scalar_type() == at::kLong,
                     kChooseFromDatasetsName, ": `choice` must yield int64 scalars, but element ", elements_,
                     " is ", to_string(spec_of(choice)), ".");
    const auto index = scalar->item<std::int64_t>();
    TORCH_CHECK_VALUE(index >= 0 && index < static_cast<std::int64_t>(inputs_.size()),
                      kChooseFromDatasetsName, ": `choice` must yield indices in [0, ", inputs_.size(),
                      "), but element ", elements_, " is ", index, ".");
    return static_cast<std::size_t>(index);
  }

  std::vector<IteratorPtr> inputs_;
  IteratorPtr choice_;
  bool ended_ = false;
  std::int64_t elements_ = 0;
  ElementType type_;
};

/// As tf.data's choose_from_datasets with its default: ends with the choice, or when a chosen dataset has
/// ended. Elements must be of one structure, kinds and dtypes. Sequential, without a batch size.
class ChooseNode final : public Node {
 public:
  /// The last input is the choice.
  explicit ChooseNode(std::vector<NodePtr> inputs) : inputs_(std::move(inputs)) {}

  std::string_view name() const override { return kChooseFromDatasetsName; }
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

  IteratorPtr iterate(const IterContext& context) const override {
    std::vector<IteratorPtr> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      inputs.push_back(open_iterator(inputs_[i], context.input(i)));
    IteratorPtr choice = std::move(inputs.back());
    inputs.pop_back();
    return std::make_unique<ChooseIterator>(std::move(inputs), std::move(choice));
  }

 private:
  std::vector<NodePtr> inputs_;
};

}  // namespace

NodePtr choose_from_datasets(std::vector<NodePtr> inputs, NodePtr choice) {
  check_inputs(inputs, kChooseFromDatasetsName);
  inputs.push_back(std::move(choice));
  return std::make_shared<ChooseNode>(std::move(inputs));
}

}  // namespace torch_distinput::ops
