// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/dataset_function.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "core/locate_errors.h"
#include "core/state_reader.h"
#include "execution/any_op.h"
#include "execution/open.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

/// Iterates over one of the datasets that a function made, and checks the type of its elements.
class CheckedIterator final : public Iterator {
 public:
  CheckedIterator(NodePtr dataset, const IterContext& context, std::shared_ptr<ElementType> type,
                  std::string where)
      : dataset_(std::move(dataset)),
        elements_(open_iterator(dataset_, context)),
        type_(std::move(type)),
        where_(std::move(where)) {}

  std::optional<Element> next() override {
    std::optional<Element> element = elements_->next();
    if (element) type_->check(*element, number_++, where_);
    return element;
  }
  State save() const override { return State().set("elements", number_).set("position", elements_->save()); }
  void load(const State& state) override {
    const StateReader saved(state, where_);
    number_ = saved.count("elements");
    elements_->load(saved.at("position"));
  }

 private:
  NodePtr dataset_;  ///< held, because it may hold objects that its own functions need
  IteratorPtr elements_;
  std::shared_ptr<ElementType> type_;
  std::string where_;
  std::int64_t number_ = 0;
};

}  // namespace

DatasetFunction::DatasetFunction(FunctionPtr function, const std::string& op, const IterContext& context)
    : function_(std::move(function)),
      call_(op + "(" + function_->name() + ")"),
      context_(context),
      key_(context.rows_key()) {}

NodePtr DatasetFunction::dataset(Element element, std::int64_t number) const {
  {
    const RowScope row(key_, {&number, 1});
    const auto where = [&] { return c10::str(call_, ": element ", number); };
    locate_errors(*function_, where, [&] { function_->apply({&element, 1}); });
  }
  NodePtr* const node =
      element.structure() == Structure::leaf() ? std::get_if<NodePtr>(&element.leaves().front()) : nullptr;
  TORCH_CHECK_TYPE(node != nullptr, call_, ": element ", number,
                   ": the function must return a Dataset, but returned ", to_string(spec_of(element)), ".");
  return std::move(*node);
}

IteratorPtr DatasetFunction::open(Element element, std::int64_t number) const {
  NodePtr node = dataset(std::move(element), number);
  // Input 0 is the input of the op. Each dataset gets a place of its own after it, so that its unseeded ops
  // draw their own random numbers.
  IterContext inner = context_.input(static_cast<std::size_t>(number) + 1);
  inner.is_part = true;
  return std::make_unique<CheckedIterator>(std::move(node), inner, type_,
                                           c10::str(call_, ": the dataset of element ", number));
}

bool reads_files(const Node& node) {
  return any_op(node, [](const Node& op) { return op.traits().sharding.reader || op.yields_readers(); });
}

bool holds_readers(const Element& element) {
  return std::any_of(element.leaves().begin(), element.leaves().end(), [](const Leaf& leaf) {
    const auto* dataset = std::get_if<NodePtr>(&leaf);
    return dataset != nullptr && reads_files(**dataset);
  });
}

}  // namespace torch_distinput
